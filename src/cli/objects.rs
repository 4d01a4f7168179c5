//! Arguments of commands that reach object stores.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use crate::objects::{Balance, Checksum, ObjectOptions, PathStyle};

/// Values separated by commas. Where the flag is given twice, the last counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed<T>(pub Vec<T>);

impl<T: FromStr<Err: std::fmt::Display>> FromStr for Listed<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Listed<T>, String> {
        let values = text.split(',').map(|value| value.trim().parse());
        values.collect::<Result<_, _>>().map(Listed).map_err(|error: T::Err| error.to_string())
    }
}

/// How an object store is reached. What is not given has the default that its help names.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Object stores")]
pub struct ObjectArgs {
    /// Address of the server, such as http://127.0.0.1:9000; several, separated by commas, share
    /// the requests [default: what the environment or the profile says, else the cloud's own]
    #[arg(long, value_name = "URL,...")]
    pub object_endpoint: Option<Listed<String>>,
    /// Which of several endpoints the next request goes to [default: least-in-flight]
    #[arg(long, value_name = "HOW")]
    pub object_balance: Option<Balance>,
    /// Region of the bucket [default: what the environment or the profile says, else us-east-1]
    #[arg(long, value_name = "NAME")]
    pub object_region: Option<String>,
    /// Profile in the credentials file that AWS's tools share; without it, credentials come from
    /// the environment or else from the profile that AWS_PROFILE names
    #[arg(long, value_name = "NAME")]
    pub object_profile: Option<String>,
    /// Send requests without credentials, to a bucket that is open to all
    #[arg(long)]
    pub object_anonymous: bool,
    /// File of certificates (PEM) to trust besides the system's
    #[arg(long, value_name = "FILE")]
    pub object_ca_file: Option<PathBuf>,
    /// Whether the bucket's name goes into the path (on) or into the host name (off) [default:
    /// auto, on where an endpoint is given]
    #[arg(long, value_name = "WHEN")]
    pub object_path_style: Option<PathStyle>,
    /// Checksum that protects data in transit: sha256 in the signature, crc64nvme in a header, or
    /// none
    /// [default: sha256]
    #[arg(long, value_name = "KIND")]
    pub object_checksum: Option<Checksum>,
    /// Largest number of requests in flight, 1 to 1024 [default: 16]
    #[arg(long, value_name = "N")]
    pub object_concurrency: Option<u32>,
    /// Number of times to retry a request before it counts as failed, 0 to 100 [default: 10]
    #[arg(long, value_name = "N")]
    pub object_retries: Option<u32>,
    /// Time limit for one attempt at a request, in seconds, 1 to 3600 [default: 60]
    #[arg(long, value_name = "SECONDS")]
    pub object_timeout: Option<u32>,
    /// Time limit for making a connection, in seconds, 1 to 3600 [default: 5]
    #[arg(long, value_name = "SECONDS")]
    pub object_connect_timeout: Option<u32>,
}

impl ObjectArgs {
    /// What they come to. [`ObjectOptions::check`] says whether it can be meant.
    #[must_use]
    pub fn options(&self) -> ObjectOptions {
        let default = ObjectOptions::default();
        let seconds = |given: Option<u32>, default| {
            given.map_or(default, |seconds| Duration::from_secs(u64::from(seconds)))
        };
        ObjectOptions {
            endpoints: self.object_endpoint.clone().unwrap_or_default().0,
            balance: self.object_balance.unwrap_or(default.balance),
            region: self.object_region.clone(),
            path_style: self.object_path_style.unwrap_or(default.path_style),
            profile: self.object_profile.clone(),
            anonymous: self.object_anonymous,
            ca_file: self.object_ca_file.clone(),
            concurrency: self.object_concurrency.unwrap_or(default.concurrency),
            retries: self.object_retries.unwrap_or(default.retries),
            timeout: seconds(self.object_timeout, default.timeout),
            connect_timeout: seconds(self.object_connect_timeout, default.connect_timeout),
            checksum: self.object_checksum.unwrap_or(default.checksum),
        }
    }

    /// One of them that was given; none where none was.
    #[must_use]
    pub fn first_given(&self) -> Option<&'static str> {
        let given = [
            ("--object-endpoint", self.object_endpoint.is_some()),
            ("--object-balance", self.object_balance.is_some()),
            ("--object-region", self.object_region.is_some()),
            ("--object-profile", self.object_profile.is_some()),
            ("--object-anonymous", self.object_anonymous),
            ("--object-ca-file", self.object_ca_file.is_some()),
            ("--object-path-style", self.object_path_style.is_some()),
            ("--object-checksum", self.object_checksum.is_some()),
            ("--object-concurrency", self.object_concurrency.is_some()),
            ("--object-retries", self.object_retries.is_some()),
            ("--object-timeout", self.object_timeout.is_some()),
            ("--object-connect-timeout", self.object_connect_timeout.is_some()),
        ];
        given.iter().find(|(_, is_given)| *is_given).map(|(flag, _)| *flag)
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        objects: ObjectArgs,
    }

    #[test]
    fn what_is_given_counts_and_each_flag_is_known_as_given() {
        let none = Alone::parse_from(["x"]).objects;
        assert_eq!(none.first_given(), None);
        assert_eq!(none.options(), ObjectOptions::default());
        for argument in Alone::command().get_arguments().filter(|arg| arg.get_id() != "help") {
            let flag = format!("--{}", argument.get_long().unwrap());
            let values = argument.get_possible_values();
            let value = values.first().map_or("1", |value| value.get_name()).to_owned();
            let mut typed = vec!["x".to_owned(), flag.clone()];
            if argument.get_action().takes_values() {
                typed.push(value);
            }
            let given = Alone::parse_from(typed).objects;
            assert_eq!(given.first_given(), Some(flag.as_str()));
        }
    }

    #[test]
    fn the_defaults_in_the_help_are_those_that_are_used() {
        let help = Alone::command().render_long_help().to_string();
        let default = ObjectOptions::default();
        for (flag, value) in [
            ("--object-concurrency", default.concurrency.to_string()),
            ("--object-retries", default.retries.to_string()),
            ("--object-timeout", default.timeout.as_secs().to_string()),
            ("--object-connect-timeout", default.connect_timeout.as_secs().to_string()),
        ] {
            let after = help.split(&format!("{flag} <")).nth(1).unwrap();
            let told = after.split("[default: ").nth(1).unwrap();
            assert!(told.starts_with(&format!("{value}]")), "{flag}: {told}");
        }
    }
}
