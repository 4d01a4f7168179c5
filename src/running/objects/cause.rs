//! Why a request failed, by the server's code, and what to do about it.

/// Cause of a failed request, told with its remedy. Codes are the servers' own.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant says what its fields are")]
pub enum Cause {
    /// The server asks for fewer requests.
    #[error(
        "the server is too busy{}: lower --object-concurrency, or raise --object-retries",
        called(.code)
    )]
    Busy { code: String },
    /// The server failed.
    #[error(
        "the server failed with status {status}{}: its log says why; --object-retries says how \
         often a request is repeated",
        called(.code)
    )]
    Server { status: u16, code: String },
    /// The connection ended in the middle.
    #[error(
        "the connection was lost ({what}): look for a proxy, a firewall or a server that restarts \
         on the way"
    )]
    Cut { what: String },
    /// No connection was made.
    #[error(
        "there is no connection to the server ({what}): check the address in --object-endpoint \
         and that this machine reaches it"
    )]
    Connect { what: String },
    /// One attempt took longer than so many seconds.
    #[error(
        "there was no complete answer within {seconds} s: raise --object-timeout, or lower \
         --object-concurrency"
    )]
    Timeout { seconds: u64 },
    /// The bytes that arrived were not those that were sent.
    #[error(
        "the server received other bytes than were sent{}: the network or the server changes data",
        called(.code)
    )]
    Checksum { code: String },
    /// The server's certificate is not trusted, or it speaks no TLS.
    #[error(
        "no secure connection can be made ({what}): give the certificate of a private authority \
         with --object-ca-file, or an http:// endpoint if the server has no TLS"
    )]
    Tls { what: String },
    /// There is no such bucket.
    #[error(
        "there is no such bucket: check its name and --object-endpoint, or create it, as ringfall \
         does not"
    )]
    NoBucket,
    /// There is no such object.
    #[error("there is no such object")]
    NoObject,
    /// No credentials were found.
    #[error(
        "no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or \
         AWS_PROFILE (for gs:// GOOGLE_APPLICATION_CREDENTIALS, for az:// \
         AZURE_STORAGE_ACCOUNT_KEY), or give --object-anonymous for a bucket that is open to all"
    )]
    NoCredentials,
    /// The credentials were good once.
    #[error(
        "the credentials have expired{}: fetch new ones, and let them last longer than the run",
        called(.code)
    )]
    Expired { code: String },
    /// The server does not know them.
    #[error(
        "the server does not know these credentials{}: check the access key in the environment or \
         the profile, and whether they belong to this endpoint",
        called(.code)
    )]
    UnknownKey { code: String },
    /// The secret does not belong to the key.
    #[error(
        "the secret does not fit the access key{}: check both; a proxy that changes requests has \
         the same effect",
        called(.code)
    )]
    WrongSecret { code: String },
    /// They do not allow it.
    #[error(
        "the credentials do not allow it{}: ringfall needs to list, read, write and delete objects \
         below the prefix",
        called(.code)
    )]
    Denied { code: String },
    /// The clocks differ by more than the server allows; by so many seconds is ours ahead.
    #[error(
        "the clock of this machine differs too much from the server's{}: set it, for instance with \
         `chronyc makestep` or `timedatectl`",
        ahead(*.ahead_s)
    )]
    ClockSkew { ahead_s: Option<i64> },
    /// The bucket is in another region.
    #[error(
        "the bucket is in another region: give {}",
        region_flag(.region.as_deref())
    )]
    Region { region: Option<String> },
    /// At the end of an upload the server no longer had one of its parts.
    #[error(
        "the server lost a part of the upload before it was complete{}: nothing was stored; write \
         it again, and look into the server",
        called(.code)
    )]
    PartLost { code: String },
    /// The server knows no such upload.
    #[error(
        "the server has forgotten the upload: something removes unfinished uploads, such as a \
         life-cycle rule of the bucket; write it again"
    )]
    NoUpload,
    /// The object is not as long as what was sent, or asked for.
    #[error("it has {found_bytes} bytes where {wanted_bytes} belong")]
    Length { found_bytes: u64, wanted_bytes: u64 },
    /// Anything else.
    #[error("the server answers with status {status}{}{}", called(.code), said(.message))]
    Other { status: u16, code: String, message: String },
}

/// The servers' words: S3's
/// (<https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html>), which Google's XML
/// interface shares, and Azure's
/// (<https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes>).
fn of_code(code: &str, region: Option<String>, ahead_s: Option<i64>) -> Option<Cause> {
    let owned = || code.to_owned();
    Some(match code {
        "SlowDown"
        | "ServiceUnavailable"
        | "ServerBusy"
        | "TooManyRequests"
        | "RequestLimitExceeded"
        | "ThrottlingException" => Cause::Busy { code: owned() },
        "RequestTimeout" | "OperationTimedOut" => {
            Cause::Cut { what: format!("the server says {code}") }
        }
        "BadDigest"
        | "InvalidDigest"
        | "XAmzContentSHA256Mismatch"
        | "XAmzContentChecksumMismatch"
        | "Md5Mismatch"
        | "Crc64Mismatch" => Cause::Checksum { code: owned() },
        "NoSuchBucket" | "ContainerNotFound" | "InvalidBucketName" => Cause::NoBucket,
        "NoSuchKey" | "BlobNotFound" => Cause::NoObject,
        "ExpiredToken" | "TokenRefreshRequired" | "ExpiredTokenException" => {
            Cause::Expired { code: owned() }
        }
        "InvalidAccessKeyId"
        | "InvalidToken"
        | "InvalidSecurity"
        | "UnrecognizedClientException" => Cause::UnknownKey { code: owned() },
        "SignatureDoesNotMatch" | "AuthenticationFailed" => Cause::WrongSecret { code: owned() },
        "RequestTimeTooSkewed" | "RequestExpired" => Cause::ClockSkew { ahead_s },
        "PermanentRedirect"
        | "TemporaryRedirect"
        | "AuthorizationHeaderMalformed"
        | "IllegalLocationConstraintException" => Cause::Region { region },
        "AccessDenied"
        | "AllAccessDisabled"
        | "AccountProblem"
        | "AuthorizationFailure"
        | "AuthorizationPermissionMismatch"
        | "InsufficientAccountPermissions" => Cause::Denied { code: owned() },
        "InvalidPart" | "InvalidPartOrder" | "EntityTooSmall" | "InvalidBlockList"
        | "InvalidBlockId" => Cause::PartLost { code: owned() },
        "NoSuchUpload" => Cause::NoUpload,
        _ => return None,
    })
}

fn of_status(status: u16, code: String, message: String) -> Cause {
    match status {
        429 | 503 => Cause::Busy { code },
        408 => Cause::Cut { what: "the server waited too long for the request".to_owned() },
        500.. => Cause::Server { status, code },
        404 => Cause::NoObject,
        401 => Cause::UnknownKey { code },
        403 => Cause::Denied { code },
        301 | 307 => Cause::Region { region: None },
        _ => Cause::Other { status, code, message },
    }
}

impl Cause {
    /// Determines the cause of a refusal with that status: by the code in its body or in a header,
    /// where that is known. Code and message may be empty; `region` is that which the server names,
    /// and `ahead_s` by how many seconds our clock is ahead of its own.
    pub(super) fn of_refusal(
        status: u16,
        code: String,
        message: String,
        region: Option<String>,
        ahead_s: Option<i64>,
    ) -> Cause {
        of_code(&code, region, ahead_s).unwrap_or_else(|| of_status(status, code, message))
    }
}

/// ` (CODE)`, as the server calls it.
fn called(code: &str) -> String {
    if code.is_empty() { String::new() } else { format!(" ({code})") }
}

/// ` (it is N s ahead)`, of this machine's clock.
fn ahead(ahead_s: Option<i64>) -> String {
    ahead_s.map_or(String::new(), |seconds| {
        let way = if seconds >= 0 { "ahead" } else { "behind" };
        format!(" (it is {} s {way})", seconds.unsigned_abs())
    })
}

/// `--object-region NAME`, as far as the name is known.
fn region_flag(region: Option<&str>) -> String {
    region.map_or("it with --object-region".to_owned(), |name| format!("--object-region {name}"))
}

/// A server's message, or a question where there is none.
fn said(message: &str) -> String {
    match message {
        "" => "; is it an object store, and the right kind of one?".to_owned(),
        message => format!(": {message}"),
    }
}

/// A request that failed for good.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}: {cause}", self.what())]
pub struct ObjectError {
    /// Operation that failed, a verb that the place completes: `writing`.
    pub operation: &'static str,
    /// The object or bucket, as a URL.
    pub place: String,
    /// Why the request failed, the last time that it was tried.
    pub cause: Cause,
    /// Number of attempts that were made.
    pub attempts: u32,
}

impl ObjectError {
    /// Text of the operation that failed, without the cause.
    pub fn what(&self) -> String {
        let ObjectError { operation, place, attempts, .. } = self;
        match attempts {
            0 | 1 => format!("{operation} {place} failed"),
            several => format!("{operation} {place} failed {several} times"),
        }
    }
}

/// Longest text of a server that is repeated, characters.
const TOLD_MAX: usize = 200;

/// A server's text, cut to a length that can be shown, in one line.
pub(super) fn told(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(TOLD_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Text between the first `<name>` and `</name>` of an XML text, not decoded.
pub(super) fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let begin = text.find(&format!("<{name}>"))? + name.len() + 2;
    let end = text[begin..].find(&format!("</{name}>"))?;
    Some(text[begin..begin + end].trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, code: &str) -> Cause {
        Cause::of_refusal(status, code.to_owned(), String::new(), None, Some(-900))
    }

    #[test]
    fn codes_count_more_than_statuses() {
        assert_eq!(refused(404, "NoSuchBucket"), Cause::NoBucket);
        assert_eq!(refused(404, ""), Cause::NoObject);
        assert_eq!(refused(403, "RequestTimeTooSkewed"), Cause::ClockSkew { ahead_s: Some(-900) });
        assert!(matches!(refused(403, "ExpiredToken"), Cause::Expired { .. }));
        assert!(matches!(refused(200, "InternalError"), Cause::Other { .. }));
        assert!(matches!(refused(500, "InternalError"), Cause::Server { .. }));
        assert!(matches!(refused(400, "BadDigest"), Cause::Checksum { .. }));
    }

    #[test]
    fn each_refusal_has_a_sentence_with_a_remedy() {
        for (status, code, word) in [
            (404, "NoSuchBucket", "or create it"),
            (403, "RequestTimeTooSkewed", "900 s behind"),
            (403, "ExpiredToken", "fetch new ones"),
            (403, "InvalidAccessKeyId", "check the access key"),
            (403, "SignatureDoesNotMatch", "secret"),
            (403, "AccessDenied", "list, read, write and delete"),
            (301, "PermanentRedirect", "--object-region"),
            (400, "InvalidPart", "lost a part"),
            (404, "NoSuchUpload", "life-cycle"),
            (503, "SlowDown", "--object-concurrency"),
            (418, "", "is it an object store"),
        ] {
            let told = refused(status, code).to_string();
            assert!(told.contains(word), "{code}: {told}");
        }
    }

    #[test]
    fn an_element_is_found_and_a_long_text_is_cut() {
        let text = "<?xml?><Error><Code>NoSuchKey</Code><Message> a\n b </Message></Error>";
        assert_eq!(element(text, "Code"), Some("NoSuchKey"));
        assert_eq!(element(text, "Region"), None);
        assert_eq!(element("<Code>x", "Code"), None);
        assert_eq!(told("a\n  b"), "a b");
        assert_eq!(told(&"é".repeat(300)).chars().count(), 201);
    }
}
