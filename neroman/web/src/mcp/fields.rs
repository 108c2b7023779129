//! The fields with which a tool is called.

use rmcp::model::JsonObject;
use serde_json::Value;

use crate::call::Refusal;
use crate::reply::fault;

/// Fields that fit their tool.
#[derive(Debug)]
pub(super) struct ToolFields(JsonObject);

impl ToolFields {
    /// Checks the fields by the schema of the tool.
    ///
    /// # Errors
    /// A field that the tool has not, one of another type, one that is missing.
    pub fn read(fields: JsonObject, schema: &JsonObject) -> Result<Self, Refusal> {
        let known = schema["properties"].as_object().into_iter().flatten();
        let known: Vec<(&str, &Value)> = known.map(|(name, shape)| (&**name, shape)).collect();
        for (name, value) in &fields {
            let Some((_, shape)) = known.iter().find(|(one, _)| one == name) else {
                let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
                let hint = format!("it has `{}`", names.join("`, `"));
                return Err(fault(&format!("the tool has no field `{name}`"), &hint));
            };
            let kind = shape["type"].as_str().unwrap_or_default();
            let limit = |name, other| shape[name].as_u64().unwrap_or(other);
            let fits = match kind {
                "string" => value.is_string(),
                "integer" => (value.as_u64()).is_some_and(|number| {
                    (limit("minimum", 0)..=limit("maximum", u64::MAX)).contains(&number)
                }),
                "boolean" => value.is_boolean(),
                _ => (value.as_array()).is_some_and(|items| items.iter().all(Value::is_string)),
            };
            if !fits {
                return Err(fault(&format!("`{name}` does not fit: it is {shape}"), ""));
            }
        }
        let mut required = schema["required"].as_array().into_iter().flatten();
        let missing =
            required.find(|name| name.as_str().is_none_or(|name| !fields.contains_key(name)));
        match missing {
            Some(missing) => Err(fault(&format!("the field {missing} is missing"), "")),
            None => Ok(Self(fields)),
        }
    }

    /// A text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    /// A whole number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name).and_then(Value::as_u64)
    }

    /// Whether a field is true.
    pub fn is_set(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    /// The texts of a list; empty without it.
    pub fn texts(&self, name: &str) -> Vec<String> {
        let items = self
            .0
            .get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    }
}
