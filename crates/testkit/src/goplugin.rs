//! Both sides of go-plugin's handshake, written on the raw protocol: HTTP/2 with hyper, messages by hand.
//!
//! [`plugin`] is a program that a host starts, [`host`] a host that starts one. Neither shares a line with the
//! product: certificates are as Go makes them (P-521, each its own authority).

pub mod host;
pub mod messages;
pub mod plugin;
mod tls;

use anyhow::{Context, Result, bail};

/// The cookie that tells a program that it is a plugin.
pub const COOKIE: (&str, &str) = ("AWF_PLUGIN", "awf-plugin-v1");

/// A message as gRPC frames it: not compressed, its length, itself.
fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("fixtures send less than 4 GiB");
    let mut out = vec![0];
    out.extend(length.to_be_bytes());
    out.extend(message);
    out
}

/// The one message in a body.
fn unframed(body: &[u8]) -> Result<&[u8]> {
    let (head, message) = body.split_at_checked(5).context("a body has a head")?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
    if head[0] != 0 || usize::try_from(length)? != message.len() {
        bail!("a body is one message that is not compressed");
    }
    Ok(message)
}
