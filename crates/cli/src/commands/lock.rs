//! `callgate lock …`: compares tool definitions with the accepted ones, and accepts new ones.

mod current;

use std::process::ExitCode;

use callgate_gate::pins::PinStore;
use callgate_gate::{
    Tool,
    pins::{
        Accepted, Definition, Difference, Lock, Pin, PinMode, Pins, Quarantine, Quarantined,
        shown_name,
    },
    visible::{Layout, visible},
};
use serde_json::json;

use callgate_config::Settings;

use crate::{
    args::{Lock as Arguments, LockCommand, Shared},
    exit::Failed,
    print::{one_line, outln, table},
    setup,
};
use current::Current;

pub(crate) fn run(shared: &Shared, lock: &Arguments) -> Result<ExitCode, Failed> {
    let settings = setup::settings(shared, &lock.gateway, true)?;
    match &lock.command {
        LockCommand::Show { tool } => show(shared, &settings, tool.as_deref()),
        LockCommand::Diff => diff(shared, &settings),
        LockCommand::Verify => verify(shared, &settings),
        LockCommand::Accept { tools, all } => accept(shared, &settings, tools, *all),
    }
}

fn show(shared: &Shared, settings: &Settings, wanted: Option<&str>) -> Result<ExitCode, Failed> {
    let is_wanted = |name: &str| {
        wanted.is_none_or(|wanted| wanted == name || name.split(':').next() == Some(wanted))
    };
    let pins = settings.pins.lock.pins();
    let pins: Vec<(String, &Pin)> = pins
        .map(|(server, tool, pin)| (format!("{server}:{tool}"), pin))
        .filter(|(name, _)| is_wanted(name))
        .collect();
    if let (Some(wanted), true) = (wanted, pins.is_empty()) {
        return Err(
            Failed::user(format!("`{}` is not in the lock", one_line(wanted, 200)))
                .help("`callgate lock show` lists its tools"),
        );
    }
    let current = Current::from_saved(settings);
    let suspicions = |name: &str| {
        current
            .tool(name)
            .map_or_else(Vec::new, |tool| current.suspicions(tool))
    };
    if shared.json {
        let one = |(name, pin): &(String, &Pin)| {
            let digest = pin.definition.digest.to_string();
            json!({"tool": name, "class": pin.definition.class, "override": pin.operator, "digest": digest, "flags": suspicions(name)})
        };
        outln!("{}", serde_json::Value::from_iter(pins.iter().map(one)));
        return Ok(ExitCode::SUCCESS);
    }
    if let [(name, pin)] = pins.as_slice() {
        print_pin(name, pin, &suspicions(name));
        return Ok(ExitCode::SUCCESS);
    }
    let row = |(name, pin): &(String, &Pin)| {
        let digest = pin.definition.digest.short();
        vec![
            one_line(name, 80),
            class(pin),
            digest,
            suspicions(name).join("; "),
        ]
    };
    let rows: Vec<Vec<String>> = pins.iter().map(row).collect();
    table(&["TOOL", "CLASS", "DIGEST", "FLAGS"], &rows);
    Ok(ExitCode::SUCCESS)
}

fn class(pin: &Pin) -> String {
    match pin.operator {
        Some(operator) => format!("{} (yours)", operator.as_str()),
        None => pin.definition.class.as_str().to_owned(),
    }
}

fn print_pin(name: &str, pin: &Pin, flags: &[String]) {
    let Definition {
        digest,
        title,
        description,
        parameters,
        annotations,
        icons,
        ..
    } = &pin.definition;
    let text = |text: &str| visible(text, Layout::Lines).replace('\n', "\n             ");
    outln!("tool         {}", one_line(name, 200));
    outln!("class        {}", class(pin));
    outln!("digest       {digest}");
    if let Some(title) = title {
        outln!("title        {}", text(title));
    }
    if let Some(description) = description {
        outln!("description  {}", text(description));
    }
    for (name, says) in parameters {
        outln!("parameter    {}: {}", one_line(name, 100), text(says));
    }
    for (name, says) in annotations {
        outln!("annotation   {}: {}", one_line(name, 100), text(says));
    }
    for icon in icons {
        outln!("icon         {}", one_line(icon, 200));
    }
    for flag in flags {
        outln!("flag         {flag}");
    }
}

/// Suspicious tools among the last known definitions, each with the reason.
pub(crate) fn suspicious_tools(settings: &Settings) -> Vec<(String, String)> {
    let current = Current::from_saved(settings);
    let servers = current.servers();
    let all = servers.iter().flatten();
    let of_tool = |tool: &Tool| {
        let name = shown_name(tool);
        let reasons = current.suspicions(tool).into_iter();
        reasons
            .map(|reason| (name.clone(), reason))
            .collect::<Vec<_>>()
    };
    all.flat_map(of_tool).collect()
}

fn diff(shared: &Shared, settings: &Settings) -> Result<ExitCode, Failed> {
    let current = Current::seen(settings)?;
    print_findings(shared, &withheld(settings, &current), &current);
    Ok(ExitCode::SUCCESS)
}

fn verify(shared: &Shared, settings: &Settings) -> Result<ExitCode, Failed> {
    let current = Current::ask(settings)?;
    let withheld = withheld(settings, &current);
    print_findings(shared, &withheld, &current);
    for gone in current.missing_from(&settings.pins.lock) {
        eprintln!(
            "note: `{}` is in the lock but its server no longer has it",
            one_line(&gone, 200)
        );
    }
    if withheld.is_empty() {
        eprintln!("{} tools match callgate.lock", current.count());
        return Ok(ExitCode::SUCCESS);
    }
    let what = match withheld.len() {
        1 => "1 tool differs from callgate.lock".to_owned(),
        count => format!("{count} tools differ from callgate.lock"),
    };
    let help = "review each, and accept what you trust with `callgate lock accept SERVER:TOOL`";
    Err(Failed::user(what).help(help))
}

/// The tools whose definition is not in the lock. Unlike in a gateway, first sight accepts nothing here.
fn withheld(settings: &Settings, current: &Current) -> Vec<Quarantined> {
    let pins = Pins {
        mode: PinMode::Locked,
        ..settings.pins.clone()
    };
    pins.sort(&current.servers(), &settings.naming())
        .quarantined
}

fn print_findings(shared: &Shared, withheld: &[Quarantined], current: &Current) {
    if shared.json {
        let one = |one: &Quarantined| json!({"tool": shown_name(&one.tool), "reason": one.reason.to_string(), "difference": difference(one), "flags": current.suspicions(&one.tool)});
        outln!("{}", serde_json::Value::from_iter(withheld.iter().map(one)));
        return;
    }
    for one in withheld {
        outln!("{}: {}", shown_name(&one.tool), one.reason);
        for line in difference(one) {
            outln!("  {line}");
        }
        for flag in current.suspicions(&one.tool) {
            outln!("  flag: {flag}");
        }
    }
}

fn difference(one: &Quarantined) -> Vec<String> {
    match &one.reason {
        Quarantine::Changed(all) => all.iter().flat_map(Difference::lines).collect(),
        Quarantine::NotLocked
        | Quarantine::LooksLike(_)
        | Quarantine::HiddenName
        | Quarantine::Suspicious(_)
        | Quarantine::OverLimit(_)
        | Quarantine::BrokenEntry(_)
        | Quarantine::DamagedLock(_) => Vec::new(),
    }
}

fn accept(
    shared: &Shared,
    settings: &Settings,
    tools: &[String],
    all: bool,
) -> Result<ExitCode, Failed> {
    let current = Current::seen(settings)?;
    let chosen = chosen(&withheld(settings, &current), tools, all)?;
    print_findings(shared, &chosen, &current);
    let file = &settings.lock_file;
    let mut take = |lock: &mut Lock| {
        let accept = |one: &Quarantined| lock.accept_tool(&one.tool, Accepted::ByPerson);
        chosen.iter().for_each(accept);
    };
    settings.lock().change(&mut take).map_err(|error| {
        Failed::config(error.to_string()).help(
            "repair the lock, restore it from version control, or move it away to accept all tools again",
        )
    })?;
    eprintln!("accepted {} tools in `{}`", chosen.len(), file.display());
    Ok(ExitCode::SUCCESS)
}

fn chosen(
    withheld: &[Quarantined],
    tools: &[String],
    all: bool,
) -> Result<Vec<Quarantined>, Failed> {
    let acceptable = |one: &&Quarantined| one.reason.can_be_accepted();
    if all {
        return Ok(withheld.iter().filter(acceptable).cloned().collect());
    }
    if tools.is_empty() {
        return Err(Failed::user("no tool given").help("name tools as SERVER:TOOL, or pass --all"));
    }
    let find = |name: &String| {
        let shown = one_line(name, 200);
        match withheld.iter().find(|one| one.tool.canonical() == *name) {
            Some(one) if one.reason.can_be_accepted() => Ok(one.clone()),
            Some(one) => Err(Failed::user(format!(
                "`{shown}` cannot be accepted: {}",
                one.reason
            ))),
            None => Err(Failed::user(format!("`{shown}` is not a withheld tool"))
                .help("`callgate lock diff` lists withheld tools; `callgate lock verify` asks the servers again")),
        }
    };
    tools.iter().map(find).collect()
}
