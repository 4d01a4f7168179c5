//! Azure's CSV of LLM inference, as <https://github.com/Azure/AzurePublicDataset> describes the
//! traces of 2023 and 2024 and the multimodal one of 2025.

use super::Row;
use super::burstgpt::{Columns, Fields};
use super::calendar::instant_ns;

/// Columns of an Azure trace. That of the images of a multimodal request is left out: their tokens
/// are no text, and how many they are is not told.
#[derive(Clone, Copy, Debug)]
pub struct AzureColumns {
    timestamp: usize,
    context: usize,
    generated: usize,
}

impl Columns for AzureColumns {
    const WANTED: &str = "an Azure trace begins with a header that names the columns TIMESTAMP, \
                          ContextTokens and GeneratedTokens";

    fn find(header: &Fields) -> Option<AzureColumns> {
        Some(AzureColumns {
            timestamp: header.find("TIMESTAMP")?,
            context: header.find("ContextTokens")?,
            generated: header.find("GeneratedTokens")?,
        })
    }

    fn row(self, fields: &Fields) -> Result<Row, String> {
        Ok(Row {
            timestamp_ns: instant_ns("TIMESTAMP", fields.named("TIMESTAMP", self.timestamp)?)?,
            context_tokens: fields.tokens("ContextTokens", self.context)?,
            generate_tokens: fields.tokens("GeneratedTokens", self.generated)?,
            ..Row::default()
        })
    }
}
