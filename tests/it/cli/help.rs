//! `--help` of every command, as a user reads it. `UPDATE_EXPECT=1` writes `help.txt` anew.

use expect_test::expect_file;

use crate::setup::Bed;
use crate::shell::{run, typed};

#[test]
fn help_of_every_command() {
    let bed = Bed::new("");
    let mut pages = String::new();
    let mut commands = vec![Vec::new()];
    while let Some(command) = commands.pop() {
        let help = help(&bed, &command);
        // The last one pushed is the first one read: pages come in the order of the lists.
        for name in subcommands(&help).into_iter().rev() {
            commands.push([command.clone(), vec![name]].concat());
        }
        let title = ["callgate".to_owned()].into_iter().chain(command);
        let title = title.collect::<Vec<_>>().join(" ");
        pages += &format!("=== {title} --help\n{}\n\n", help.trim_end());
    }
    expect_file!["help.txt"].assert_eq(&pages);
}

fn help(bed: &Bed, command: &[String]) -> String {
    // clap shows the values of variables, which differ from machine to machine.
    let mut shown = typed(bed, command);
    let ran = run(shown.arg("--help").env_remove("CALLGATE_DATA_DIR"));
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (Some(0), ""),
        "{command:?}"
    );
    ran.stdout
}

/// The names in the list `Commands:`, but not `help`.
fn subcommands(help: &str) -> Vec<String> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    list.take_while(|line| !line.is_empty())
        .filter_map(|line| {
            // Longer indents continue the text of the line before.
            let line = line
                .strip_prefix("  ")
                .filter(|line| !line.starts_with(' '))?;
            line.split(' ').next().map(str::to_owned)
        })
        .filter(|name| name != "help")
        .collect()
}
