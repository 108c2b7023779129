//! Error handlers of a spec as `on_error`.

use std::fmt::Write as _;

use super::{Importer, RETRIES, in_quotes, scalar};
use crate::{Action, Handler, ReturnCode, script};
use nero_expr::Pattern;
use nero_model::safe::{Safe, quoted};

impl Importer<'_> {
    pub(super) fn handlers(&mut self) -> String {
        if !self.spec.check_any_errors {
            return "on_error: [{then: continue}]\n".to_owned();
        }
        let mut items = String::new();
        let mut has_any = false;
        for handler in &self.spec.error_handlers {
            match self.handler(handler) {
                Ok(item) => {
                    has_any = true;
                    items.push_str(&item);
                }
                Err(why) => {
                    let name = handler_name(handler);
                    items.push_str(&self.lost(format!("the error handler {name}: {why}")));
                }
            }
        }
        // Anything on standard error is an error.
        if has_any {
            format!("on_error:\n{items}")
        } else {
            format!("{items}on_error: []\n")
        }
    }

    fn handler(&mut self, handler: &Handler) -> Result<String, String> {
        let mut words = Vec::new();
        if matches!(handler.return_code, ReturnCode::Never) {
            return Err("it has no `return_code` and fits nothing".to_owned());
        }
        let codes: Vec<u16> = (0..=255).filter(|code| takes(handler, *code)).collect();
        match codes.as_slice() {
            [] => return Err("no exit code fits it".to_owned()),
            codes if codes.len() == 256 => {}
            [code] => words.push(format!("exit: {code}")),
            codes => {
                let codes: Vec<String> = codes.iter().map(u16::to_string).collect();
                words.push(format!("exit: [{}]", codes.join(", ")));
            }
        }
        let takes_all = |text: &&str| handler.stderr.matches(text) == Ok(true);
        if !["", "x", "x\ny\n"].iter().all(takes_all) {
            let python = handler.stderr.python();
            let python = python.strip_suffix("\\n").unwrap_or(python);
            let python = python.trim_end_matches('\n');
            let pattern = format!("^(?:{python})$");
            if Pattern::new(&pattern).is_err() {
                return Err(format!(
                    "its pattern {} is one of Python alone",
                    quoted(python)
                ));
            }
            let of = handler_name(handler);
            let what = format!(
                "the whole standard error: the pattern of the error handler {of} is compared with its last line"
            );
            if !self.file.warnings.contains(&what) {
                self.file.warnings.push(what);
            }
            words.push(format!("stderr: {}", scalar(&pattern)));
        }
        words.push(match &handler.action {
            Action::Continue => "then: continue".to_owned(),
            Action::Retry => format!("then: retry, max: {RETRIES}"),
            Action::Abort => "then: abort".to_owned(),
            Action::Unknown(word) => return Err(format!("its action {}", quoted(word))),
        });
        let mut text = String::new();
        match self.response(handler) {
            Ok(None) => {}
            Ok(Some(run)) => {
                text.push_str(&self.lost_once(
                    "commands of error handlers that take longer than 10 minutes: they are ended \
                     then, and what they start ends with them",
                ));
                words.insert(words.len() - 1, format!("run: {}", scalar(&run)));
            }
            Err(why) => {
                let of = handler_name(handler);
                let what = format!("the commands of the error handler {of}: {why}");
                text.push_str(&self.lost(what));
            }
        }
        let _ = writeln!(text, "  - {{{}}}", words.join(", "));
        Ok(text)
    }

    /// The commands of a handler for the node of a run. There `sh` reads them, and it may be no bash.
    fn response(&self, handler: &Handler) -> Result<Option<String>, String> {
        let groups = &handler.commands;
        if groups.iter().any(|group| group.local) && !self.is_local() {
            return Err("some of them run on this machine".to_owned());
        }
        let commands: Vec<String> = (groups.iter())
            .flat_map(|group| group.commands.iter().cloned())
            .collect();
        let mentions = |word: &str| commands.iter().any(|line| line.contains(word));
        let experiments = self.spec.stages.iter().flatten();
        let mut variables = experiments.flat_map(|one| one.env.iter().map(|(name, _)| name));
        if let Some(name) = variables.find(|name| mentions(name)) {
            return Err(format!(
                "they use `{}`, which experiments set",
                Safe::line(name)
            ));
        }
        if commands.is_empty() {
            return Ok(None);
        }
        let folder = if self.is_local() {
            self.own_folder()
        } else {
            "cd ~".to_owned()
        };
        let mut lines = vec![folder];
        if mentions("NOODLES_EXPERIMENT") {
            lines.push("export NOODLES_EXPERIMENT_NAME=\"$NERO_NAME\"".to_owned());
            if !self.renamed.is_empty() {
                lines.push("case $NERO_NAME in".to_owned());
                for (own, name) in &self.renamed {
                    let exact = [("NOODLES_EXPERIMENT_NAME", name.clone())];
                    let line = script(&[], &exact, &[]);
                    lines.push(format!("{}) {line} ;;", in_quotes(own)));
                }
                lines.push("esac".to_owned());
            }
        }
        if mentions("NOODLES_SERVER") {
            lines.push(self.server_by_node().trim_end().to_owned());
        }
        lines.push(script(&[], &[], &commands));
        Ok(Some(format!(
            "exec bash -c {}",
            in_quotes(&lines.join("\n"))
        )))
    }
}

fn handler_name(handler: &Handler) -> String {
    match handler.name.as_str() {
        "" => format!("in line {}", handler.mark.line),
        name => quoted(name),
    }
}

/// Whether a handler takes an exit code.
pub(super) fn takes(handler: &Handler, code: u16) -> bool {
    match &handler.return_code {
        ReturnCode::Never => false,
        ReturnCode::Is(one) => *one == f64::from(code),
        ReturnCode::Matches(pattern) => pattern.matches(&code.to_string()) == Ok(true),
    }
}
