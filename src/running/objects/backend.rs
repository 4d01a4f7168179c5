//! The clients of a store, one an endpoint, with what the user says, the environment and the
//! profile, in this order.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use object_store::aws::{
    AmazonS3Builder, AmazonS3ConfigKey, AwsCredential, Checksum as S3Checksum,
};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder};
use object_store::multipart::MultipartStore;
use object_store::{ClientOptions, ObjectStore, RetryConfig, StaticCredentialProvider};
use ringfall_config::object_store::{Checksum, ObjectOptions, ObjectUrl, PathStyle, Scheme};

use super::profile::{Profile, ProfileFiles};
use super::wire::Wires;

/// A store with uploads in parts.
pub(super) trait Store: ObjectStore + MultipartStore {}
impl<T: ObjectStore + MultipartStore> Store for T {}

/// One endpoint: what it is called, its client, and the requests to it.
pub(super) struct Endpoint {
    pub(super) name: String,
    pub(super) store: Arc<dyn Store>,
    pub(super) in_flight: AtomicUsize,
    pub(super) requests: AtomicUsize,
}

impl Endpoint {
    pub(super) fn new(name: String, store: Arc<dyn Store>) -> Endpoint {
        Endpoint { name, store, in_flight: AtomicUsize::new(0), requests: AtomicUsize::new(0) }
    }
}

/// Opens a client for each endpoint.
pub(super) fn open(
    url: &ObjectUrl,
    options: &ObjectOptions,
    wires: &Wires,
) -> Result<Vec<Endpoint>, String> {
    if url.scheme != Scheme::S3 {
        refuse_s3_only(options)?;
    }
    let profile = match url.scheme {
        Scheme::S3 => profile(options, &ProfileFiles::of_environment())?,
        _ => Profile::default(),
    };
    let endpoints: Vec<Option<&str>> = match options.endpoints.as_slice() {
        [] => vec![None],
        several => several.iter().map(|endpoint| Some(endpoint.trim_end_matches('/'))).collect(),
    };
    let one = |endpoint: &Option<&str>| match url.scheme {
        Scheme::S3 => s3(url, options, &profile, *endpoint, wires),
        Scheme::Azure => azure(url, options, *endpoint, wires),
        Scheme::Google => google(url, options, *endpoint, wires),
    };
    endpoints.iter().map(one).collect()
}

/// Flags that mean something to S3 alone.
fn refuse_s3_only(options: &ObjectOptions) -> Result<(), String> {
    let given = [
        ("--object-region", options.region.is_some()),
        ("--object-profile", options.profile.is_some()),
        ("--object-path-style", options.path_style != PathStyle::Auto),
        ("--object-checksum", options.checksum != Checksum::Sha256),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => Err(format!("{flag} is for s3:// only: leave it out")),
        None => Ok(()),
    }
}

/// The profile that is meant: the one that the user names; else, where the environment has no
/// credentials of its own, that of `AWS_PROFILE` or the default one.
fn profile(options: &ObjectOptions, files: &ProfileFiles) -> Result<Profile, String> {
    let missing = |name: &str| {
        format!(
            "there is no profile {name} in {} or {}",
            files.credentials.display(),
            files.config.display()
        )
    };
    if let Some(name) = &options.profile {
        return files.read(name)?.ok_or_else(|| format!("--object-profile: {}", missing(name)));
    }
    let has_own = std::env::var_os("AWS_ACCESS_KEY_ID").is_some_and(|key| !key.is_empty());
    match std::env::var("AWS_PROFILE") {
        _ if has_own => Ok(Profile::default()),
        Ok(name) if !name.is_empty() => {
            files.read(&name)?.ok_or_else(|| format!("AWS_PROFILE: {}", missing(&name)))
        }
        _ => Ok(files.read("default")?.unwrap_or_default()),
    }
}

/// Ours are the only retries: they move on to another endpoint, and are counted.
fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

fn s3(
    url: &ObjectUrl,
    options: &ObjectOptions,
    profile: &Profile,
    endpoint: Option<&str>,
    wires: &Wires,
) -> Result<Endpoint, String> {
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(&url.bucket)
        .with_http_connector(wires.clone())
        .with_retry(no_retries())
        .with_disable_bulk_delete(true);
    let said = |builder: &AmazonS3Builder, key| builder.get_config_value(&key);
    if let Some((key_id, secret_key, token)) = profile.keys.clone() {
        let credential = AwsCredential { key_id, secret_key, token };
        builder = builder.with_credentials(Arc::new(StaticCredentialProvider::new(credential)));
    }
    let region = options.region.clone().or_else(|| said(&builder, AmazonS3ConfigKey::Region));
    if let Some(region) = region.or_else(|| profile.region.clone()) {
        builder = builder.with_region(region);
    }
    let endpoint = endpoint
        .map(str::to_owned)
        .or_else(|| said(&builder, AmazonS3ConfigKey::S3Endpoint))
        .or_else(|| said(&builder, AmazonS3ConfigKey::Endpoint))
        .or_else(|| profile.endpoint.clone());
    let in_path = match options.path_style {
        PathStyle::On => true,
        PathStyle::Off => false,
        PathStyle::Auto => endpoint.is_some(),
    };
    builder = builder.with_virtual_hosted_style_request(!in_path);
    let name = endpoint.clone().unwrap_or_else(|| "Amazon S3".to_owned());
    if let Some(endpoint) = endpoint {
        let (scheme, host) = endpoint.split_once("://").unwrap_or(("https", &endpoint));
        let address = match in_path {
            true => format!("{scheme}://{host}"),
            false => format!("{scheme}://{}.{host}", url.bucket),
        };
        let clear = ClientOptions::new().with_allow_http(scheme == "http");
        builder =
            builder.with_config(AmazonS3ConfigKey::S3Endpoint, address).with_client_options(clear);
    }
    if options.anonymous {
        builder = builder.with_skip_signature(true);
    }
    builder = match options.checksum {
        Checksum::Sha256 => builder,
        Checksum::None => builder.with_unsigned_payload(true),
        Checksum::Crc64nvme => {
            builder.with_unsigned_payload(true).with_checksum_algorithm(S3Checksum::CRC64NVME)
        }
    };
    let store = builder.build().map_err(|error| error.to_string())?;
    Ok(Endpoint::new(name, Arc::new(store)))
}

fn azure(
    url: &ObjectUrl,
    options: &ObjectOptions,
    endpoint: Option<&str>,
    wires: &Wires,
) -> Result<Endpoint, String> {
    let mut builder = MicrosoftAzureBuilder::from_env()
        .with_container_name(&url.bucket)
        .with_http_connector(wires.clone())
        .with_retry(no_retries())
        .with_skip_signature(options.anonymous);
    if let Some(endpoint) = endpoint {
        builder = builder
            .with_endpoint(endpoint.to_owned())
            .with_allow_http(endpoint.starts_with("http://"));
    }
    let store = builder.build().map_err(|error| {
        format!("{error}: set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY")
    })?;
    let name = endpoint.unwrap_or("Azure Blob Storage").to_owned();
    Ok(Endpoint::new(name, Arc::new(store)))
}

fn google(
    url: &ObjectUrl,
    options: &ObjectOptions,
    endpoint: Option<&str>,
    wires: &Wires,
) -> Result<Endpoint, String> {
    let mut builder = GoogleCloudStorageBuilder::from_env()
        .with_bucket_name(&url.bucket)
        .with_http_connector(wires.clone())
        .with_retry(no_retries())
        .with_skip_signature(options.anonymous);
    if options.anonymous {
        // The crate asks for credentials before it writes all the same; `wire` leaves out the
        // header that it makes of this one.
        let nobody = GcpCredential { bearer: String::new() };
        builder = builder.with_credentials(Arc::new(StaticCredentialProvider::new(nobody)));
    }
    if let Some(endpoint) = endpoint {
        let clear = ClientOptions::new().with_allow_http(endpoint.starts_with("http://"));
        builder = builder.with_base_url(endpoint).with_client_options(clear);
    }
    let store = builder
        .build()
        .map_err(|error| format!("{error}: set GOOGLE_APPLICATION_CREDENTIALS to a key file"))?;
    let name = endpoint.unwrap_or("Google Cloud Storage").to_owned();
    Ok(Endpoint::new(name, Arc::new(store)))
}
