//! Values that are checked while they are read, so that an error can point at them.

use std::{net::SocketAddr, time::Duration};

use callgate_record::Redactor;
use serde::{Deserialize, Deserializer, de::Error};

use crate::{heads::HeadTarget, model::TimeSpan};

/// The separator of shown tool names: only characters that every host accepts in a name.
pub(super) fn separator<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if text.is_empty() || !text.chars().all(plain) {
        let what = "a separator is one or more of `A-Z a-z 0-9 _ - .`";
        return Err(D::Error::custom(what));
    }
    Ok(text)
}

/// The longest shown name.
pub(super) fn name_length<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let length = usize::deserialize(deserializer)?;
    if !(16..=128).contains(&length) {
        return Err(D::Error::custom("`max_length` must be from 16 to 128"));
    }
    Ok(length)
}

/// How long a session may be idle: at least a second, in which a client can use it.
pub(super) fn session_idle<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<TimeSpan, D::Error> {
    let span = TimeSpan::deserialize(deserializer)?;
    if span.0 < Duration::from_secs(1) {
        return Err(D::Error::custom("`session_idle` must be at least `1s`"));
    }
    Ok(span)
}

/// The time between two publications of heads: at least a second.
pub(super) fn heads_every<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<TimeSpan, D::Error> {
    let span = TimeSpan::deserialize(deserializer)?;
    if span.0 < Duration::from_secs(1) {
        return Err(D::Error::custom("`every` must be at least `1s`"));
    }
    Ok(span)
}

/// Where heads are published: each a file or a URL.
pub(super) fn head_targets<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<HeadTarget>, D::Error> {
    let targets = Vec::<HeadTarget>::deserialize(deserializer)?;
    for target in &targets {
        if target.file.is_some() == target.url.is_some() {
            let what = "heads are published to a `file` or to a `url`: write one of them";
            return Err(D::Error::custom(what));
        }
        if target.file.is_some() && target.secret.is_some() {
            return Err(D::Error::custom("a `secret` signs messages to a `url`"));
        }
    }
    Ok(targets)
}

/// An address to listen on.
pub(super) fn address<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    match text.as_deref().map(str::parse::<SocketAddr>) {
        None | Some(Ok(_)) => Ok(text),
        Some(Err(_)) => Err(D::Error::custom(
            "this is not an address to listen on; write it like `127.0.0.1:7117`",
        )),
    }
}

/// The patterns of `activity.redact`.
pub(super) fn patterns<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<String>, D::Error> {
    let patterns = Vec::<String>::deserialize(deserializer)?;
    Redactor::new(&patterns, 0).map_err(D::Error::custom)?;
    Ok(patterns)
}

/// The address of a page: `http` or `https`, and a host.
pub(super) fn base_url<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else {
        return Ok(None);
    };
    let url = url::Url::parse(&text).ok();
    let fits = url.is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if fits {
        Ok(Some(text))
    } else {
        Err(D::Error::custom(format!(
            "`{text}` is not a web address; write it like `https://gate.example.com`"
        )))
    }
}
