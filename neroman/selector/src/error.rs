//! Mistakes in a selection.

use nero_expr::{ErrorKind, ExprError, Span, render};

/// What sort of mistake a [`SelectorError`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectorErrorKind {
    /// The text is not a selector.
    Syntax,
    /// An id, a range or a name that picks nothing.
    Nothing,
    /// A name inside an expression exists nowhere or means two things.
    Name,
    /// A word that this version does not have yet.
    NotBuilt,
    /// Too long or too deep.
    Limit,
}

/// A mistake in a selection, with its place in the text of the selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SelectorError {
    /// What sort of mistake it is.
    pub kind: SelectorErrorKind,
    /// Place of the mistake in the selector.
    pub span: Span,
    /// What is wrong: lower case, no full stop.
    pub message: String,
    /// What to do instead, when we know.
    pub hint: Option<String>,
    /// Whether the hint names another selector that the user perhaps meant.
    /// Suggestions inside an expression do not count.
    pub hint_names: bool,
}

impl SelectorError {
    pub(crate) fn new(
        kind: SelectorErrorKind,
        span: Span,
        message: impl Into<String>,
    ) -> SelectorError {
        SelectorError {
            kind,
            span,
            message: message.into(),
            hint: None,
            hint_names: false,
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> SelectorError {
        self.hint = Some(hint.into());
        self
    }

    /// With a hint that names another selector.
    pub(crate) fn hint_names(self, hint: impl Into<String>) -> SelectorError {
        SelectorError {
            hint_names: true,
            ..self.hint(hint)
        }
    }

    /// The error of an expression that begins at byte `offset` of the selector.
    pub(crate) fn in_expression(error: ExprError, offset: usize) -> SelectorError {
        let kind = match error.kind {
            ErrorKind::Syntax | ErrorKind::Kind => SelectorErrorKind::Syntax,
            ErrorKind::Name => SelectorErrorKind::Name,
            ErrorKind::NotBuilt => SelectorErrorKind::NotBuilt,
            ErrorKind::Limit => SelectorErrorKind::Limit,
        };
        SelectorError {
            kind,
            span: error.span.shifted(offset),
            message: error.message,
            hint: error.hint,
            hint_names: false,
        }
    }

    /// Message, the selector with a caret under the place, and hint, as
    /// [`ExprError::render`] shows them.
    pub fn render(&self, selector: &str) -> String {
        render(&self.message, selector, self.span, self.hint.as_deref())
    }
}
