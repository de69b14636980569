//! Asking the hub: redirects followed by hand, so that the token goes to the hub and to nobody else.

use std::io::Read;
use std::time::Duration;

use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body, http::Response};

use super::environment::Environment;

/// How long a server may say nothing.
const SILENCE: Duration = Duration::from_secs(30);
const REDIRECTS: usize = 10;
/// A listing of the largest repositories is a few of these.
const LISTING_BYTES: u64 = 16 << 20;

/// What came of a request.
#[derive(Debug)]
pub enum Refused {
    /// No answer, or one that broke off: asking again may help.
    Network(String),
    /// An answer of this status that is none of success, and the hub's word for why.
    Status(u16, Option<String>),
    /// An answer that is not to be followed.
    Answer(String),
}

impl Refused {
    /// Whether the same may be answered another time.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Network(_) | Self::Status(408 | 429 | 500..=599, _)
        )
    }
}

/// Speaks to one hub.
pub struct Client<'a> {
    environment: &'a Environment,
    agent: Agent,
}

impl<'a> Client<'a> {
    /// Asks nothing yet.
    pub fn new(environment: &'a Environment) -> Self {
        let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier);
        let config = Agent::config_builder()
            .tls_config(tls.build())
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(SILENCE))
            .timeout_recv_response(Some(SILENCE))
            .timeout_per_read(Some(SILENCE))
            .user_agent(concat!("foretoken/", env!("CARGO_PKG_VERSION")))
            .accept_encoding("identity");
        Self {
            environment,
            agent: config.build().into(),
        }
    }

    /// The listing of a repository.
    pub fn listing(&self, repository: &str, revision: &str) -> Result<Vec<u8>, Refused> {
        let path = format!("/api/models/{repository}/revision/{revision}?blobs=true");
        let mut response = self.get(&path, 0)?;
        let mut body = Vec::new();
        let reader = response.body_mut().as_reader();
        reader
            .take(LISTING_BYTES)
            .read_to_end(&mut body)
            .map_err(|error| Refused::Network(error.to_string()))?;
        Ok(body)
    }

    /// A file's bytes from `from` on, or all of them where the server does not cut: status 206 or 200.
    pub fn file(
        &self,
        repository: &str,
        commit: &str,
        path: &str,
        from: u64,
    ) -> Result<Response<Body>, Refused> {
        self.get(
            &format!("/{repository}/resolve/{commit}/{}", percent_encoded(path)),
            from,
        )
    }

    fn get(&self, path: &str, from: u64) -> Result<Response<Body>, Refused> {
        let endpoint = &self.environment.endpoint;
        let mut address = format!("{endpoint}{path}");
        for _ in 0..=REDIRECTS {
            let mut request = self.agent.get(&address);
            if let Some(token) = &self.environment.token
                && origin(&address) == origin(endpoint)
            {
                request = request.header("Authorization", format!("Bearer {token}"));
            }
            if from > 0 {
                request = request.header("Range", format!("bytes={from}-"));
            }
            let response = request
                .call()
                .map_err(|error| Refused::Network(error.to_string()))?;
            let header = |name: &str| response.headers().get(name)?.to_str().ok();
            match response.status().as_u16() {
                200 | 206 => return Ok(response),
                301 | 302 | 303 | 307 | 308 => {
                    address = redirected(&address, header("location").unwrap_or_default())?;
                }
                status => {
                    return Err(Refused::Status(
                        status,
                        header("x-error-code").map(str::to_owned),
                    ));
                }
            }
        }
        Err(Refused::Answer(format!(
            "it redirects more than {REDIRECTS} times"
        )))
    }
}

/// Scheme, host and port.
fn origin(address: &str) -> &str {
    let host = address.find("://").map_or(0, |at| at + 3);
    let end = address[host..].find(['/', '?', '#']);
    end.map_or(address, |end| &address[..host + end])
}

/// Where a redirect leads: an address, or a path of the same server. Never from https to http.
fn redirected(from: &str, location: &str) -> Result<String, Refused> {
    let path = location.starts_with('/') && !location.starts_with("//");
    let to = match path {
        true => format!("{}{location}", origin(from)),
        false => location.to_owned(),
    };
    let secure = to.starts_with("https://");
    if secure || (to.starts_with("http://") && !from.starts_with("https://")) {
        return Ok(to);
    }
    let shown: String = location.chars().take(96).collect();
    Err(Refused::Answer(format!(
        "it redirects to {shown:?}, which is not followed"
    )))
}

/// A path in an address.
fn percent_encoded(path: &str) -> String {
    let mut encoded = String::new();
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' => encoded.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => encoded.push(char::from(byte)),
            _ => encoded += &format!("%{byte:02X}"),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(origin("https://a.b:1/c?d"), "https://a.b:1");
        assert_eq!(origin("https://a.b"), "https://a.b");
        // What merely begins alike is another host.
        assert_ne!(origin("https://a.b.evil/x"), origin("https://a.b"));
        assert_ne!(origin("https://a.b@evil/x"), origin("https://a.b"));
        assert_eq!(percent_encoded("a b/ü#?.gguf"), "a%20b/%C3%BC%23%3F.gguf");
        let redirected = |from, to| redirected(from, to).ok();
        assert_eq!(redirected("https://a/b", "/c?d").unwrap(), "https://a/c?d");
        assert_eq!(
            redirected("http://a/b", "https://c/d").unwrap(),
            "https://c/d"
        );
        for location in ["http://c/d", "//c/d", "file:///etc", "", "c"] {
            assert_eq!(redirected("https://a/b", location), None, "{location}");
        }
    }
}
