//! Lines that an agent tried out and may carry out.

use std::sync::Mutex;

use serde_json::{Value, json};

use super::fields::ToolFields;
use crate::call::Refusal;
use crate::guard;
use crate::lines;
use crate::reply::fault;
use crate::server::Caller;

/// Lines that wait for their second call; the oldest goes first.
const WAITING_MAX: usize = 32;

/// Tokens with the words that they confirm.
#[derive(Debug, Default)]
pub(super) struct Confirmations(Mutex<Vec<(String, Vec<String>)>>);

impl Confirmations {
    /// Tries a line out, or carries it out if it was tried out before.
    ///
    /// # Errors
    /// A line that an agent may not do; a token of another line.
    pub async fn execute(&self, caller: &Caller, fields: &ToolFields) -> Result<Value, Refusal> {
        let words = fields.texts("words");
        lines::permit(caller, &words)?;
        if let Some(token) = fields.text("token") {
            self.take(token, &words)?;
            return lines::execute_change(caller, &words, false).await;
        }
        let mut tried = lines::execute_change(caller, &words, true).await?;
        if !tried["error"].is_null() {
            return Ok(tried);
        }
        let token = self.add(words)?;
        tried["token"] = json!(token);
        tried["next"] = json!("nothing is done yet: call `do` with the same words and this token");
        Ok(tried)
    }

    fn add(&self, words: Vec<String>) -> Result<String, Refusal> {
        let token = guard::secret().map_err(|error| fault(&error.to_string(), ""))?;
        let mut waiting = self.0.lock().expect("no holder of the lock panics");
        if waiting.len() == WAITING_MAX {
            waiting.remove(0);
        }
        waiting.push((token.clone(), words));
        Ok(token)
    }

    /// Takes a token away, which confirms its line once.
    fn take(&self, token: &str, words: &[String]) -> Result<(), Refusal> {
        let mut waiting = self.0.lock().expect("no holder of the lock panics");
        let hint = "call `do` without a token first; it answers with one for these words alone";
        match waiting.iter().position(|(one, _)| one == token) {
            Some(at) if waiting[at].1 == words => {
                waiting.remove(at);
                Ok(())
            }
            Some(_) => Err(fault("the token is of another line", hint)),
            None => Err(fault("the token was used, or is none", hint)),
        }
    }
}
