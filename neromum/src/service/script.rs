//! The batch script of a run, to be looked at before anything is started.

use nero_cluster::request::{Shape, TaskRequest, example};
use nero_model::safe::Safe;
use nero_node::launch::orders::grace_ms;
use nero_wire::v1::{RunSpec, ScriptReply, ScriptRequest};

use super::ServiceState;

pub(super) async fn script(inner: &ServiceState, request: &ScriptRequest) -> ScriptReply {
    match written(inner, request).await {
        Ok((script, command)) => ScriptReply {
            script,
            command,
            problem: String::new(),
        },
        Err(problem) => ScriptReply {
            problem,
            ..ScriptReply::default()
        },
    }
}

/// The script, and the command that gets it.
async fn written(
    inner: &ServiceState,
    request: &ScriptRequest,
) -> Result<(String, String), String> {
    let front = inner.front.as_ref();
    let front = front.ok_or("it has no scheduler: runs are started there without a script")?;
    let mut warden = front.warden().clone();
    if let Ok(site) = front.site().await
        && let Some(knowing) = warden.knowing(&site)
    {
        warden = knowing;
    }
    let none = RunSpec::default();
    let spec = request.run.as_ref().unwrap_or(&none);
    let asked =
        TaskRequest::of(spec, grace_ms(spec), &*warden).map_err(|error| error.to_string())?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let name = example();
    let folder = inner.placer.paths.mum().join("submissions").join(name.id());
    let runs = request.tasks.max(1) as usize;
    let pack = runs.min(asked.pack as usize);
    let shape = Shape::of(runs.div_ceil(pack), pack);
    let shape = shape.with_limit(front.settings().max_running);
    let busy = inner.answer(inner.agent.busy()).await;
    let min_free = busy.map_err(|status| status.message().to_owned())?.min_free;
    let job = nero_warden::Job {
        program,
        folder,
        min_free,
    };
    let order = asked.order(name, shape, job);
    let script = warden.script(&order).map_err(|error| error.to_string())?;
    let call = warden.submit_call(&order, &script);
    let mut command = call.program.clone().into_owned();
    for word in &call.words {
        command.push(' ');
        command.push_str(&Safe::line(word.as_ref()).to_string());
    }
    Ok((script, command))
}
