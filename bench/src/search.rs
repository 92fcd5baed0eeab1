//! The search view in figures: how well tools are found, how quickly things are found, checked and listed, and how
//! much a model has to read.

mod answers;
mod quality;
mod speed;
mod words;

pub(crate) use answers::{catalog, run as answers};
pub(crate) use quality::{Options as QualityOptions, run as quality};
pub(crate) use speed::{Options as SpeedOptions, run as speed};
