//! Policy files, as their authors and the agents behind them see them.

mod commands;
mod guide;
mod refusals;
mod reloads;
mod truth;
