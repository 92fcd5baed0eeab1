//! An SDK for plugins written in Rust.
//!
//! ```no_run
//! use callgate_plugin::sdk::{Input, Operation, Answer, Server};
//!
//! # async fn main_of_a_plugin() -> Result<(), callgate_plugin::sdk::ServeError> {
//! let echo = Operation::new("echo", "Says it again.").input(Input::string("text").required());
//! Server::new("example", "1.0.0")
//!     .operation(echo, |inputs| async move { Answer::text(inputs.text("text").unwrap_or_default()) })
//!     .serve()
//!     .await
//! # }
//! ```
//!
//! [`Server::serve`] uses go-plugin's handshake, so any go-plugin host can start the program. Started in another
//! way it exits with an error. If the host sends a certificate, the plugin serves TLS to that host alone;
//! otherwise it serves plain text on a socket in a private folder.

mod listen;
mod services;

use std::{collections::BTreeMap, fmt, future::Future, io, sync::Arc};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use crate::proto::v1::{InputSchema, OperationSchema, OutputSchema};

#[derive(Debug)]
pub struct Server {
    name: String,
    version: String,
    description: String,
    operations: Vec<RegisteredOperation>,
    configured: Arc<dyn ConfigureHook>,
}

/// An operation: its name, its inputs and outputs.
#[derive(Debug, Clone)]
pub struct Operation {
    schema: OperationSchema,
}

/// An input of an operation.
#[derive(Debug, Clone)]
pub struct Input {
    schema: InputSchema,
}

/// The inputs of one operation call, or the host's configuration.
#[derive(Debug, Clone, Default)]
pub struct Inputs {
    values: BTreeMap<String, Value>,
}

/// The result of an operation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// Text for people.
    pub output: String,
    /// Values for programs, by name.
    pub data: Map<String, Value>,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

/// Why a plugin does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The program was not started by a plugin host.
    #[error("this program is a plugin: it must be started by a plugin host, not run directly")]
    NoHost,
    /// The host supports other protocol versions.
    #[error("the host supports plugin protocol versions `{0}`, but this plugin uses version 1")]
    Version(String),
    /// The host's certificate cannot be read.
    #[error("the host's certificate cannot be read")]
    Certificate,
    #[error("the plugin cannot listen: {0}")]
    Listen(#[from] io::Error),
    #[error("the plugin cannot serve: {0}")]
    Serve(String),
}

/// Receives the host's configuration, and may refuse it with a message.
trait ConfigureHook: Send + Sync {
    fn configure(&self, config: Inputs) -> Result<(), String>;
}

impl<F: Fn(Inputs) -> Result<(), String> + Send + Sync> ConfigureHook for F {
    fn configure(&self, config: Inputs) -> Result<(), String> {
        self(config)
    }
}

impl fmt::Debug for dyn ConfigureHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConfigureHook")
    }
}

type Handler = Arc<dyn Fn(Inputs) -> BoxFuture<'static, Answer> + Send + Sync>;

/// An operation and its handler.
#[derive(Clone)]
struct RegisteredOperation {
    schema: OperationSchema,
    handler: Handler,
}

impl fmt::Debug for RegisteredOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegisteredOperation")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// A plugin without operations.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            description: String::new(),
            operations: Vec::new(),
            configured: Arc::new(|_: Inputs| Ok(())),
        }
    }

    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = text.into();
        self
    }

    /// Sets a hook that gets the host's configuration before any operation runs, and may refuse it.
    pub fn configure(
        mut self,
        configured: impl Fn(Inputs) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.configured = Arc::new(configured);
        self
    }

    pub fn operation<F>(
        mut self,
        operation: Operation,
        handler: impl Fn(Inputs) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        self.operations.push(RegisteredOperation {
            schema: operation.schema,
            handler: Arc::new(move |inputs| Box::pin(handler(inputs))),
        });
        self
    }

    /// Serves the host that started this program until the host asks for a shutdown.
    pub async fn serve(self) -> Result<(), ServeError> {
        listen::serve(self).await
    }
}

impl Operation {
    /// An operation without inputs.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            schema: OperationSchema {
                name: name.into(),
                description: description.into(),
                ..OperationSchema::default()
            },
        }
    }

    pub fn input(mut self, input: Input) -> Self {
        self.schema.inputs.push(input.schema);
        self
    }

    /// Documents a value of the result's `data`.
    pub fn output(
        mut self,
        name: impl Into<String>,
        kind: impl Into<String>,
        description: impl Into<String>,
    ) -> Self {
        self.schema.outputs.push(OutputSchema {
            name: name.into(),
            r#type: kind.into(),
            description: description.into(),
        });
        self
    }
}

impl Input {
    pub fn string(name: impl Into<String>) -> Self {
        Self::of(name.into(), "string")
    }

    pub fn integer(name: impl Into<String>) -> Self {
        Self::of(name.into(), "integer")
    }

    pub fn boolean(name: impl Into<String>) -> Self {
        Self::of(name.into(), "boolean")
    }

    pub fn array(name: impl Into<String>) -> Self {
        Self::of(name.into(), "array")
    }

    pub fn object(name: impl Into<String>) -> Self {
        Self::of(name.into(), "object")
    }

    fn of(name: String, kind: &str) -> Self {
        Self {
            schema: InputSchema {
                name,
                r#type: kind.to_owned(),
                ..InputSchema::default()
            },
        }
    }

    pub fn required(mut self) -> Self {
        self.schema.required = true;
        self
    }

    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.schema.description = text.into();
        self
    }

    /// The default, as text. Only the schema shows it: the handler must apply it.
    pub fn default(mut self, text: impl Into<String>) -> Self {
        self.schema.default = text.into();
        self
    }

    /// It must be a URL.
    pub fn url(mut self) -> Self {
        self.schema.validation = "url".to_owned();
        self
    }

    /// It must be an e-mail address.
    pub fn email(mut self) -> Self {
        self.schema.validation = "email".to_owned();
        self
    }
}

impl Inputs {
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name)?.as_str().map(str::to_owned)
    }
}

impl Answer {
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            output: text.into(),
            ..Self::default()
        }
    }

    pub fn failure(why: impl Into<String>) -> Self {
        Self {
            error: Some(why.into()),
            ..Self::default()
        }
    }

    /// Adds a value to `data`.
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.data.insert(name.into(), value.into());
        self
    }
}
