//! The search view in figures: how well tools are found, and how quickly things are found, checked and listed.

mod quality;
mod speed;

pub(crate) use quality::{Options as QualityOptions, run as quality};
pub(crate) use speed::{Options as SpeedOptions, run as speed};
