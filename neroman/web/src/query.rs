//! The words behind `?` of an address.

use crate::call::Refusal;
use crate::reply::fault;

/// A text as a value in an address.
pub fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// Fields of an address, in their order.
#[derive(Debug)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads the fields; of those in `single` one may stand, of those in `many` several.
    ///
    /// # Errors
    /// A field that the address does not have, or has twice.
    pub fn read(raw: Option<&str>, single: &[&str], many: &[&str]) -> Result<Self, Refusal> {
        let raw = raw.unwrap_or_default().as_bytes();
        let fields = form_urlencoded::parse(raw).into_owned();
        let mut read = Self(Vec::new());
        for (name, value) in fields {
            let is_single = single.contains(&name.as_str());
            if is_single && read.text(&name).is_some() {
                return Err(fault(&format!("`{name}` stands twice in the address"), ""));
            }
            if !is_single && !many.contains(&name.as_str()) {
                let known = [single, many].concat().join("`, `");
                return Err(fault(
                    &format!("the address has no `{name}`"),
                    &format!("it has `{known}`"),
                ));
            }
            read.0.push((name, value));
        }
        Ok(read)
    }

    /// The text of a field.
    pub fn text(&self, name: &str) -> Option<&str> {
        let mut fields = self.0.iter();
        let field = fields.find(|(key, _)| key == name);
        field.map(|(_, value)| value.as_str())
    }

    /// The text of a field; empty without it.
    pub fn text_or_empty(&self, name: &str) -> &str {
        self.text(name).unwrap_or_default()
    }

    /// All values of a field.
    pub fn all(&self, name: &str) -> Vec<String> {
        let fields = self.0.iter().filter(|(key, _)| key == name);
        fields.map(|(_, value)| value.clone()).collect()
    }

    /// Whether a field is `1`.
    ///
    /// # Errors
    /// Another value than `0` and `1`.
    pub fn is_set(&self, name: &str) -> Result<bool, Refusal> {
        Ok(self.number::<u8>(name, 0..=1)?.unwrap_or(0) == 1)
    }

    /// A number within limits.
    ///
    /// # Errors
    /// No such number.
    pub fn number<N>(
        &self,
        name: &str,
        limits: std::ops::RangeInclusive<N>,
    ) -> Result<Option<N>, Refusal>
    where
        N: std::str::FromStr + PartialOrd + std::fmt::Display,
    {
        let Some(text) = self.text(name).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let number = text.parse().ok().filter(|number| limits.contains(number));
        let (low, high) = (limits.start(), limits.end());
        number.map(Some).ok_or_else(|| {
            fault(
                &format!("`{name}={text}`: not a number from {low} to {high}"),
                "",
            )
        })
    }
}
