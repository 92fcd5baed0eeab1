//! What a loop iterates over, and how often.

use serde_json::Value;

use super::{Run, RunFrame};
use crate::{
    arithmetic::Arithmetic,
    model::{Item, Items, Limit},
    read::MAX_ITERATIONS,
    template::TemplateError,
};

impl Run<'_> {
    /// The limit of a loop, computed now.
    pub(super) fn limit(&self, frame: &RunFrame, limit: &Limit) -> Result<usize, String> {
        let most = match limit {
            Limit::Fixed(most) => i64::from(*most),
            Limit::Computed(sum) => {
                let value = sum.value(&self.scope(frame));
                value.map_err(|error| error.to_string())?
            }
            Limit::Template(template) => {
                let text = template.render(&self.scope(frame));
                let text = text.map_err(|error| error.to_string())?;
                let sum = Arithmetic::read(&text).map_err(|error| error.to_string())?;
                let value = sum.value(&self.scope(frame));
                value.map_err(|error| error.to_string())?
            }
        };
        if !(1..=i64::from(MAX_ITERATIONS)).contains(&most) {
            return Err(format!("`{most}` is not from 1 to {MAX_ITERATIONS}"));
        }
        usize::try_from(most).map_err(|error| error.to_string())
    }

    /// The items of a loop.
    pub(super) fn items(&self, frame: &RunFrame, items: &Items) -> Result<Vec<Value>, String> {
        let scope = self.scope(frame);
        let told = |error: TemplateError| error.to_string();
        match items {
            Items::List(items) => {
                let one = |item: &Item| match item {
                    Item::Value(value) => Ok(value.clone()),
                    Item::Template(template) => template.value(&scope).map_err(told),
                };
                items.iter().map(one).collect()
            }
            Items::Template(template) => match template.value(&scope).map_err(told)? {
                Value::Array(items) => Ok(items),
                Value::String(text) => Ok(listed(&text)),
                other => Err(format!("`{other}` is not a list")),
            },
        }
    }
}

/// A text as a list: JSON, or else separated by commas.
fn listed(text: &str) -> Vec<Value> {
    let plain = || text.split(',').map(|item| item.trim().into()).collect();
    serde_json::from_str(text).unwrap_or_else(|_| plain())
}
