//! The keys of `activity.heads` in `callgate.yaml`, and the places that they name.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use callgate_process::environment::{self, MissingVariable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::{Failed, checked, model::TimeSpan, protected};

/// Where the newest entry of each writer is published, and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Heads {
    /// Files and webhooks that get the heads: at the start, while entries are written, and at the end.
    #[serde(
        deserialize_with = "checked::head_targets",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub publish: Vec<HeadTarget>,
    /// How often they are published while there are new ones.
    #[serde(deserialize_with = "checked::heads_every")]
    pub every: TimeSpan,
}

impl Default for Heads {
    fn default() -> Self {
        Self {
            publish: Vec::new(),
            every: TimeSpan(Duration::from_secs(300)),
        }
    }
}

/// A place that heads are published to: a file or a webhook.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HeadTarget {
    /// A file outside of the data folder that gets a line per publication; `${VAR}` is expanded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// A URL that gets a POST request per publication; `${VAR}` is expanded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// With `url`: the key that signs each message, in `X-Callgate-Signature`; `${VAR}` is expanded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

impl fmt::Debug for HeadTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeadTarget { .. }")
    }
}

/// A place that heads are published to, with its variables replaced.
#[derive(Clone, PartialEq, Eq)]
pub enum HeadPlace {
    File(PathBuf),
    Url { url: Url, secret: Option<String> },
}

impl fmt::Debug for HeadPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeadPlace { .. }")
    }
}

impl Heads {
    /// The places to publish to; fails unless each can be one.
    pub fn places(&self, data_dir: &Path) -> Result<Vec<HeadPlace>, Failed> {
        let wrong = |what: String| Failed::config(format!("`activity.heads.publish`: {what}"));
        let place = |target: &HeadTarget| {
            let missing = |error: MissingVariable| wrong(error.to_string());
            match (&target.file, &target.url) {
                (Some(file), _) => {
                    HeadPlace::file(&expand(file).map_err(missing)?, data_dir).map_err(wrong)
                }
                (None, url) => {
                    let url = expand(url.as_deref().unwrap_or_default()).map_err(missing)?;
                    let secret = target.secret.as_deref().map(expand).transpose();
                    HeadPlace::url(&url, secret.map_err(missing)?).map_err(wrong)
                }
            }
        };
        self.publish.iter().map(place).collect()
    }

    /// The files among them, as far as they can be told.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let files = self.publish.iter().filter_map(|target| {
            let file = expand(target.file.as_deref()?).ok()?;
            Some(PathBuf::from(file))
        });
        files.collect()
    }
}

impl HeadPlace {
    /// The place that a person named.
    pub fn named(text: &str, data_dir: &Path) -> Result<Self, Failed> {
        let place = if text.contains("://") {
            Self::url(text, None)
        } else {
            let path = std::path::absolute(text).map_err(|error| error.to_string());
            path.and_then(|path| Self::file(&path.to_string_lossy(), data_dir))
        };
        place.map_err(Failed::user)
    }

    fn file(file: &str, data_dir: &Path) -> Result<Self, String> {
        let path = Path::new(file);
        if !path.is_absolute() {
            return Err(format!("`{file}` is not an absolute path"));
        }
        let kept = protected::names(data_dir);
        let inside = |name: &PathBuf| kept.iter().any(|folder| name.starts_with(folder));
        // A program that can change the log could change the heads beside it in the same way.
        if protected::names(path).iter().any(inside) {
            return Err(format!(
                "`{file}` is in the data folder: heads prove something only if they are kept elsewhere"
            ));
        }
        Ok(Self::File(path.to_owned()))
    }

    fn url(url: &str, secret: Option<String>) -> Result<Self, String> {
        let parsed = Url::parse(url).ok();
        let url = parsed.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let url = url.ok_or("a `url` must begin with http:// or https://")?;
        Ok(Self::Url { url, secret })
    }
}

fn expand(text: &str) -> Result<String, MissingVariable> {
    environment::expand(text, |name| std::env::var(name).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Heads, String> {
        serde_saphyr::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn heads_are_published_to_files_elsewhere_and_to_web_addresses() {
        let data = tempfile::tempdir().expect("a folder");
        let dir = data.path().display();
        for (target, expected) in [
            ("{file: /mnt/heads.jsonl}".to_owned(), ""),
            ("{url: 'https://h.example/x', secret: s}".to_owned(), ""),
            ("{file: heads.jsonl}".to_owned(), "is not an absolute path"),
            (format!("{{file: '{dir}/h'}}"), "is in the data folder"),
            (format!("{{file: '{dir}/x/../h'}}"), "is in the data folder"),
            ("{url: 'ftp://h/x'}".to_owned(), "must begin with http"),
            ("{file: '${NO_SUCH_CALLGATE}'}".to_owned(), "is not set"),
        ] {
            let heads = read(&format!("publish: [{target}]")).expect("it is written right");
            let places = heads.places(data.path());
            let told = places.map_or_else(|failed| failed.message().to_owned(), |_| String::new());
            assert!(told.contains(expected), "{target}: {told}");
            assert_eq!(told.is_empty(), expected.is_empty(), "{target}: {told}");
        }
    }

    #[test]
    fn a_target_without_one_place_is_refused() {
        for (text, why) in [
            ("publish: [{}]", "write one of them"),
            (
                "publish: [{file: /a, url: 'http://h'}]",
                "write one of them",
            ),
            ("publish: [{file: /a, secret: s}]", "signs messages"),
            ("publish: [{path: /a}]", "path"),
            ("every: 10ms", "at least"),
        ] {
            let told = read(text).expect_err(text);
            assert!(told.contains(why), "{text}: {told}");
        }
    }
}
