//! `neroman mcp`: tools for a coding agent, over standard input and output. An agent sees windows and
//! documents as a page does, and types command lines: each is tried out before it is carried out.

mod bound;
mod confirm;
mod fields;
mod reading;

use std::sync::LazyLock;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, ServerCapabilities,
    ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::Value;

use crate::call::Refusal;
use crate::lines;
use crate::server::Caller;
use confirm::Confirmations;
use fields::ToolFields;

/// The address of a page of help.
const HELP: &str = "neroman://help/";

const ABOUT: &str = "Neronet runs, watches and steers computational experiments. Experiments have \
numbers and are picked by selectors (`12`, `12-20`, `all`, `last`, `crashed`, a name, a glob, an \
expression such as `lr > 0.01 && loss < 2`); read neroman://help/selectors. What `do` takes is a \
line of neroman without its first word; read neroman://help/VERB.";

/// The tools of one agent.
#[derive(Debug)]
pub struct AgentTools {
    caller: Caller,
    /// What is meant where a tool is called without a selector.
    picked: String,
    /// Pages of help, each with a line about it.
    topics: Vec<(String, String)>,
    confirmations: Confirmations,
}

/// The tools as the protocol describes them.
static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("tools.json")).expect("the tools are a part of this program")
});

/// The only tool that changes something.
const DO: &str = "do";

impl AgentTools {
    /// Tools that ask over this way; `picked` is what a tool without a selector is about.
    pub fn new(caller: Caller, picked: String, topics: Vec<(String, String)>) -> Self {
        Self {
            caller,
            picked,
            topics,
            confirmations: Confirmations::default(),
        }
    }

    /// Serves the agent at the other end of standard input and output until it leaves.
    ///
    /// # Errors
    /// When the other end does not speak the protocol.
    pub async fn serve(self) -> Result<(), Box<dyn std::error::Error>> {
        let running = ServiceExt::serve(self, rmcp::transport::stdio()).await?;
        running.waiting().await?;
        Ok(())
    }

    fn tools(&self) -> impl Iterator<Item = &'static Tool> {
        let is_read_only = self.caller.settings.is_read_only;
        TOOLS
            .iter()
            .filter(move |tool| !(is_read_only && tool.name == DO))
    }

    async fn answer(&self, name: &str, fields: &ToolFields) -> Result<Value, Refusal> {
        match name {
            "status" => reading::status(&self.caller, fields, &self.picked).await,
            "logs" => reading::logs(&self.caller, fields).await,
            "metrics" => reading::metrics(&self.caller, fields, &self.picked).await,
            DO => self.confirmations.execute(&self.caller, fields).await,
            _ => reading::line(&self.caller, name, fields, &self.picked).await,
        }
    }
}

impl ServerHandler for AgentTools {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("neroman", nero_model::VERSION))
            .with_instructions(ABOUT)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(
            self.tools().cloned().collect(),
        ))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.tools().find(|tool| tool.name == request.name) else {
            let text = format!("there is no tool `{}`", request.name);
            return Err(ErrorData::invalid_params(text, None));
        };
        let fields = ToolFields::read(request.arguments.unwrap_or_default(), &tool.input_schema);
        let answered = match fields {
            Ok(fields) => self.answer(&tool.name, &fields).await,
            Err(refused) => Err(refused),
        };
        let text = |value: Value| {
            let value = bound::bounded(value);
            vec![ContentBlock::text(nero_views::json::print(&value))]
        };
        let result = match answered {
            Ok(value) if value["error"].is_null() => CallToolResult::success(text(value)),
            Ok(value) => CallToolResult::error(text(value)),
            Err(refused) => CallToolResult::error(text(refused.document)),
        };
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let pages = self.topics.iter().map(|(name, about)| {
            let page = Resource::new(format!("{HELP}{name}"), name.clone());
            page.with_description(about.clone())
                .with_mime_type("text/plain")
        });
        Ok(ListResourcesResult::with_all_items(pages.collect()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let unknown = || {
            let text = format!("there is no page {}", request.uri);
            ErrorData::resource_not_found(text, None)
        };
        let topic = request.uri.strip_prefix(HELP).ok_or_else(unknown)?;
        let page = lines::help_page(&self.caller, &[topic.to_owned()]).await;
        let page = page.map_err(|_| unknown())?;
        let text = String::from_utf8_lossy(&page).into_owned();
        Ok(ReadResourceResult::new(vec![ResourceContents::text(text, request.uri)]).into())
    }
}
