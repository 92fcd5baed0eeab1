//! The interpreter `monty`: Python without files, network or processes. It suspends at each external call.

mod advice;
mod clock;
mod naming;

use std::collections::HashMap;

use monty::{MontyRepl, ReplFunctionCall, ReplProgress, ReplResolveFutures, ReplStartError};
use monty_types::{
    CompileOptions, ExcType, ExtFunctionResult, MontyException, MontyObject, MontyUuid,
    NameLookupResult, OsFunctionCall, PrintWriter, ResourceLimits, ResourceTracker,
};
use serde_json::value::RawValue;

use super::{Engine, HostChannel, HostGone, Work};
use crate::{
    HostCall, Outcome,
    frames::{Done, Failed},
    prepare::{LATER, PRELUDE, RETURN, VIA},
    value::{Strictness, from_json, to_json},
    words::ANSWERED,
};
use naming::{nearest, pack_object};

/// The depth of Python calls. Deeper recursion raises an exception before it can overflow the stack.
const MAX_RECURSION: usize = 400;

#[derive(Debug)]
pub(crate) struct Monty;

impl Engine for Monty {
    fn run(
        &self,
        work: &Work,
        outside: &mut dyn HostChannel,
    ) -> Result<Result<Done, Failed>, HostGone> {
        let mut run = Run {
            work,
            outside,
            printed: String::new(),
            calls: 0,
            pending: HashMap::new(),
        };
        let ended = run.script();
        let printed = run.printed;
        Ok(match ended {
            Ok((value, names)) => Ok(Done {
                printed,
                value,
                names,
                form: work.script.format,
            }),
            Err(Stopped::HostGone) => return Err(HostGone),
            Err(Stopped::Failed { message, line }) => Err(Failed {
                printed,
                message,
                line,
                is_spent: false,
            }),
            Err(Stopped::AtLimit { message, line }) => Err(Failed {
                printed,
                message,
                line,
                is_spent: true,
            }),
        })
    }
}

enum Stopped {
    HostGone,
    Failed { message: String, line: Option<u32> },
    AtLimit { message: String, line: Option<u32> },
}

impl From<HostGone> for Stopped {
    fn from(_: HostGone) -> Self {
        Self::HostGone
    }
}

/// Where the interpreter stopped, or the exception that ended the script.
type Progress = Result<ReplProgress, Box<ReplStartError>>;
type Values = (Option<Box<RawValue>>, Vec<(String, Box<RawValue>)>);

struct Run<'a> {
    work: &'a Work,
    outside: &'a mut dyn HostChannel,
    printed: String,
    calls: u32,
    /// Our call ids by the interpreter's future ids.
    pending: HashMap<u32, u32>,
}

enum FeedResult {
    Value(Box<MontyRepl>, MontyObject),
    Returned(MontyObject),
}

impl Run<'_> {
    fn script(&mut self) -> Result<Values, Stopped> {
        let work = self.work;
        let limits = ResourceLimits::default()
            .max_duration(work.limits.cpu)
            .max_recursion_depth(MAX_RECURSION);
        let tracker = ResourceTracker::new(limits);
        let mut repl = MontyRepl::new("script", tracker, CompileOptions::default());
        let ours = |what: &str, error: MontyException| Stopped::Failed {
            message: format!("{what}: {}", error.summary()),
            line: None,
        };
        repl.feed_run(PRELUDE, vec![], PrintWriter::Disabled)
            .map_err(|error| ours("the interpreter could not be prepared", error))?;
        for pack in &work.local {
            let what = format!("the local pack `{}` cannot be used", pack.name);
            repl.feed_run(&pack.code, vec![], PrintWriter::Disabled)
                .map_err(|error| ours(&what, error))?;
        }
        match self.feed(repl, &work.script.code)? {
            FeedResult::Returned(value) => Ok((Some(self.raw_json(&value, 0)?), Vec::new())),
            FeedResult::Value(_, value) if work.script.ends_with_value => {
                Ok((Some(self.raw_json(&value, 0)?), Vec::new()))
            }
            FeedResult::Value(repl, _) => Ok((None, self.assigned(*repl)?)),
        }
    }

    /// The values of the names that the script assigned; functions and types are left out.
    fn assigned(&mut self, mut repl: MontyRepl) -> Result<Vec<(String, Box<RawValue>)>, Stopped> {
        let mut names = Vec::new();
        let mut bytes = 0;
        for name in &self.work.script.assigned {
            let progress = repl.feed_start(name, vec![], PrintWriter::Disabled);
            repl = match progress {
                Ok(ReplProgress::Complete { repl, value }) => {
                    let is_code = matches!(
                        value,
                        MontyObject::Function { .. }
                            | MontyObject::Repr(_)
                            | MontyObject::Type(_)
                            | MontyObject::BuiltinFunction(_)
                    );
                    if !is_code {
                        let raw_json = self.raw_json(&value, bytes)?;
                        bytes += raw_json.get().len();
                        names.push((name.clone(), raw_json));
                    }
                    repl
                }
                Ok(other) => other.into_repl(),
                Err(error) => error.repl,
            };
        }
        Ok(names)
    }

    /// A value as JSON, if it fits into the output limit after `before` bytes of other values.
    fn raw_json(&self, value: &MontyObject, before: usize) -> Result<Box<RawValue>, Stopped> {
        let failed = |message| Stopped::Failed {
            message,
            line: None,
        };
        let json = to_json(value, Strictness::Result).map_err(failed)?;
        if before + json.len() + self.printed.len() > self.work.limits.output_bytes {
            let (message, line) = (self.too_much(), None);
            return Err(Stopped::AtLimit { message, line });
        }
        RawValue::from_string(json).map_err(|error| failed(error.to_string()))
    }

    fn too_much(&self) -> String {
        format!(
            "the output is larger than {} bytes (code.output_kib): return less, or a part of it",
            self.work.limits.output_bytes
        )
    }

    /// Runs the script to its end and answers its calls.
    fn feed(&mut self, repl: MontyRepl, code: &str) -> Result<FeedResult, Stopped> {
        let limit = Some(self.work.limits.output_bytes);
        let mut printed = String::new();
        let begun = repl.feed_start(
            code,
            vec![],
            PrintWriter::CollectString(&mut printed, limit),
        );
        let fed = self.resume_until_done(begun, &mut printed);
        self.printed = printed;
        fed
    }

    fn resume_until_done(
        &mut self,
        begun: Progress,
        printed: &mut String,
    ) -> Result<FeedResult, Stopped> {
        let limit = Some(self.work.limits.output_bytes);
        let mut progress = begun;
        loop {
            let print = PrintWriter::CollectString(&mut *printed, limit);
            let now = match progress {
                Ok(now) => now,
                Err(error) => return Err(self.explained(&error.error)),
            };
            progress = match now {
                ReplProgress::Complete { repl, value } => {
                    return Ok(FeedResult::Value(Box::new(repl), value));
                }
                ReplProgress::NameLookup(lookup) => {
                    let found = match lookup.object_id() {
                        Some(object) => self.member(object, &lookup.name),
                        None => self.name(&lookup.name),
                    };
                    lookup.resume(found, print)
                }
                ReplProgress::OsCall(call) => {
                    let answer = self.os_answer(&call.function_call);
                    call.resume(answer, print)
                }
                ReplProgress::FunctionCall(call) if is_return(&call) => {
                    let value = call.args.into_iter().next();
                    return Ok(FeedResult::Returned(value.unwrap_or(MontyObject::None)));
                }
                ReplProgress::FunctionCall(call) => self.make_call(call, print)?,
                ReplProgress::ResolveFutures(waiting) => self.resolve_one(waiting, print)?,
            };
        }
    }

    /// Makes the call that the script stopped at. A deferred call gives a future, and the script continues.
    fn make_call(
        &mut self,
        call: ReplFunctionCall,
        print: PrintWriter<'_>,
    ) -> Result<Progress, Stopped> {
        let called = self.called(call.object_id, &call.function_name);
        Ok(match self.ask(&called, &call.args, &call.kwargs)? {
            Err(error) => call.resume(error, print),
            Ok(id) if called.is_later => {
                self.pending.insert(call.call_id, id);
                call.resume_pending(print)
            }
            Ok(id) => {
                let (_, outcome) = self.outside.answer(&[id])?;
                call.resume(result_of(outcome), print)
            }
        })
    }

    /// Waits for any of the futures that the script awaits.
    fn resolve_one(
        &mut self,
        waiting: ReplResolveFutures,
        print: PrintWriter<'_>,
    ) -> Result<Progress, Stopped> {
        let futures: Vec<(u32, u32)> = waiting
            .pending_call_ids()
            .iter()
            .filter_map(|future| Some((*future, *self.pending.get(future)?)))
            .collect();
        let calls: Vec<u32> = futures.iter().map(|(_, call)| *call).collect();
        let (call, outcome) = self.outside.answer(&calls)?;
        let future = futures.iter().find(|(_, id)| *id == call);
        let future = future.map(|(future, _)| *future).unwrap_or_default();
        self.pending.remove(&future);
        Ok(waiting.resume(vec![(future, result_of(outcome))], print))
    }

    /// Resolves a name that the script does not bind: a pack, or a function of the host.
    fn name(&self, name: &str) -> NameLookupResult {
        let packs = &self.work.packs;
        if let Some(at) = packs.iter().position(|pack| pack == name) {
            return NameLookupResult::Value(pack_object(name, at));
        }
        if ANSWERED.contains(&name) || name == RETURN {
            return NameLookupResult::Value(MontyObject::Function {
                name: name.to_owned(),
                docstring: None,
            });
        }
        let mut message = format!("name '{name}' is not defined");
        if let Some(near) = nearest(name, packs) {
            message.push_str(&format!("; did you mean `{near}`?"));
        }
        message.push_str(&format!(" Packs: {}", packs.join(", ")));
        NameLookupResult::Error(MontyException::new(ExcType::NameError, Some(message)))
    }

    /// Resolves a tool that is referenced without being called.
    fn member(&self, object: MontyUuid, name: &str) -> NameLookupResult {
        match self.pack_of(object) {
            Some(pack) => NameLookupResult::Value(MontyObject::Function {
                name: format!("{pack}.{name}"),
                docstring: None,
            }),
            None => NameLookupResult::Undefined,
        }
    }

    fn pack_of(&self, object: MontyUuid) -> Option<&str> {
        let at = u128::from_be_bytes(*object.as_bytes());
        let at = usize::try_from(at.checked_sub(1)?).ok()?;
        self.work.packs.get(at).map(String::as_str)
    }

    fn called(&self, object: Option<MontyUuid>, function: &str) -> ResolvedCall {
        let (pack, tool) = match object {
            Some(object) => (self.pack_of(object).unwrap_or_default(), function),
            None => function.split_once('.').unwrap_or(("", function)),
        };
        let (tool, via) = match tool.split_once(VIA) {
            Some((tool, via)) => (tool, Some(via.to_owned())),
            None => (tool, None),
        };
        let is_later = tool.ends_with(LATER);
        ResolvedCall {
            pack: pack.to_owned(),
            tool: tool.strip_suffix(LATER).unwrap_or(tool).to_owned(),
            via,
            is_later,
        }
    }

    /// Sends a call to the host, or returns the exception to raise instead.
    fn ask(
        &mut self,
        called: &ResolvedCall,
        args: &[MontyObject],
        kwargs: &[(MontyObject, MontyObject)],
    ) -> Result<Result<u32, MontyException>, Stopped> {
        let id = self.calls;
        if id >= self.work.limits.calls {
            let limit = self.work.limits.calls;
            let message =
                format!("the script made {limit} calls, and no more are allowed (code.calls)");
            return Err(Stopped::AtLimit {
                message,
                line: None,
            });
        }
        if let Some(local) = self.work.local.iter().find(|pack| pack.name == called.pack) {
            let mut functions: Vec<&str> = local.functions.iter().map(String::as_str).collect();
            functions.sort_unstable();
            let (pack, tool, known) = (&called.pack, &called.tool, functions.join(", "));
            let message = format!("the pack `{pack}` has no `{tool}`; it has: {known}");
            return Ok(Err(MontyException::new(
                ExcType::AttributeError,
                Some(message),
            )));
        }
        let by_place = to_json(&MontyObject::List(args.to_vec()), Strictness::Argument);
        let by_name = MontyObject::dict(kwargs.to_vec());
        let by_name = to_json(&by_name, Strictness::Argument);
        let most = self.work.limits.output_bytes;
        let (args, kwargs) = match (by_place, by_name) {
            (Ok(args), Ok(kwargs)) if args.len() + kwargs.len() > most => {
                let tool = &called.tool;
                let message = format!(
                    "the arguments of `{tool}` are larger than {most} bytes (code.output_kib): send less at once"
                );
                return Ok(Err(MontyException::new(ExcType::ValueError, Some(message))));
            }
            (Ok(args), Ok(kwargs)) => (args, kwargs),
            (Err(error), _) | (_, Err(error)) => {
                let tool = &called.tool;
                let message = format!("the arguments of `{tool}` cannot be sent: {error}");
                return Ok(Err(MontyException::new(ExcType::TypeError, Some(message))));
            }
        };
        let raw = |text| RawValue::from_string(text).unwrap_or_default();
        self.calls += 1;
        self.outside.ask(&HostCall {
            id,
            pack: called.pack.clone(),
            tool: called.tool.clone(),
            args: raw(args),
            kwargs: raw(kwargs),
            via: called.via.clone(),
        })?;
        Ok(Ok(id))
    }

    /// Answers the interpreter's system calls. Only the clock is available.
    fn os_answer(&self, wanted: &OsFunctionCall) -> ExtFunctionResult {
        match wanted {
            OsFunctionCall::DateToday => clock::today(self.work.now_us).into(),
            OsFunctionCall::DateTimeNow(zone) => clock::now(self.work.now_us, zone.as_ref()).into(),
            _ => MontyException::new(
                ExcType::PermissionError,
                Some("a script has no files and no environment: use the packs".to_owned()),
            )
            .into(),
        }
    }

    /// An exception as a message for the script's author, with the line in the script.
    fn explained(&self, error: &MontyException) -> Stopped {
        // The interpreter numbers its inputs in order: prelude, local packs, script.
        let script = format!("<python-input-{}>", 1 + self.work.local.len());
        let frames = error.traceback();
        let line = frames.iter().rev().find(|frame| frame.filename == script);
        let line = line.map(|frame| frame.start.line);
        let summary = error.summary();
        if summary.contains("time limit exceeded") {
            let message = format!(
                "the script used more than {:?} of CPU time (code.cpu): do less, or in several runs",
                self.work.limits.cpu
            );
            return Stopped::AtLimit { message, line };
        }
        // The kernel enforces the memory limit, so the interpreter's own memory error is about printed output.
        if summary.contains("memory limit exceeded") {
            let message = self.too_much();
            return Stopped::AtLimit { message, line };
        }
        let message = advice::advised(&summary, &self.work.packs);
        Stopped::Failed { message, line }
    }
}

/// A call as the script wrote it.
struct ResolvedCall {
    pack: String,
    tool: String,
    via: Option<String>,
    is_later: bool,
}

/// Whether the script calls the function that stands for its top-level `return`.
fn is_return(call: &ReplFunctionCall) -> bool {
    call.object_id.is_none() && call.function_name == RETURN
}

fn result_of(outcome: Outcome) -> ExtFunctionResult {
    match outcome {
        Outcome::Value(json) => match from_json(json.get()) {
            Ok(value) => value.into(),
            Err(error) => MontyException::new(
                ExcType::RuntimeError,
                Some(format!("the result cannot be read: {error}")),
            )
            .into(),
        },
        Outcome::Raised { kind, message } => {
            let kind = kind.parse().unwrap_or(ExcType::RuntimeError);
            MontyException::new(kind, Some(message)).into()
        }
    }
}
