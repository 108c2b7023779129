//! A selector's text as elements, as far as it can be read without experiments.

use nero_expr::{
    Expr, ExprError, Fact, NameRef, ParseContext, Past, Pick, Span, State, is_name_char,
};

use crate::error::{SelectorError, SelectorErrorKind};
use crate::split::{quoted_len, split};

/// The longest selector, in bytes; room for ten thousand numbers.
pub const SELECTOR_BYTES_MAX: usize = 64 * 1024;

/// A selector: a union of elements, read but not yet looked up.
#[derive(Clone, Debug)]
pub struct Selector {
    pub(crate) elements: Vec<Element>,
}

/// One of the parts between commas.
#[derive(Clone, Debug)]
pub(crate) struct Element {
    pub text: String,
    pub span: Span,
    pub meaning: ElementMeaning,
}

/// Meaning of an element, by the first rule that fits.
#[derive(Clone, Debug)]
pub(crate) enum ElementMeaning {
    /// Text in backticks: an experiment's name.
    Name(String),
    /// An id, a range or a run.
    Digits(Pick),
    /// `all`, `last` or a state word.
    Word(Word),
    /// `tag:x`, whatever name an experiment has.
    Tag(Box<Expr>),
    /// A name, something in a collection, a glob or an expression, whichever
    /// fits the experiments first.
    Open(Box<Result<Expr, ExprError>>),
}

/// A word that picks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    All,
    Last,
    State(State),
}

impl Word {
    pub fn from_text(text: &str) -> Option<Word> {
        match text {
            "all" => Some(Word::All),
            "last" => Some(Word::Last),
            _ => State::from_word(text).map(Word::State),
        }
    }
}

/// The meaning that a name has in a selector when it is written without
/// backticks: `an id`, `a state word` …; `None` when it is read as a name. `add`
/// warns with it.
pub fn reads_as(name: &str) -> Option<&'static str> {
    match (Pick::from_digits(name), Word::from_text(name)) {
        (Some(Ok(Pick::Id(_))), _) => Some("an id"),
        (Some(Ok(Pick::Run { .. })), _) => Some("a run"),
        (Some(Ok(_) | Err(_)), _) => Some("a range"),
        (None, Some(Word::All | Word::Last)) => Some("a word of selectors"),
        (None, Some(Word::State(_))) => Some("a state word"),
        (None, None) if name.starts_with("tag:") => Some("a tag"),
        (None, None) if name.starts_with('!') => Some("a condition"),
        (None, None) if name.contains(',') => Some("several elements"),
        (None, None) => None,
    }
}

impl Selector {
    /// Reads a selector.
    ///
    /// Dates are read in the zone of `context`. Errors: nothing between commas,
    /// impossible numbers, `!x` beside other elements, too long. [`Selector::pick`] returns mistakes in expressions, since a
    /// text is an expression only when no experiment has it as its name.
    pub fn parse(text: &str, context: &ParseContext) -> Result<Selector, SelectorError> {
        if text.len() > SELECTOR_BYTES_MAX {
            let message = format!("a selector has at most {SELECTOR_BYTES_MAX} bytes");
            let start = Span::new(0, 0);
            return Err(SelectorError::new(SelectorErrorKind::Limit, start, message));
        }
        let places = split(text);
        if let Some(error) = decimal_comma(text, &places) {
            return Err(error);
        }
        let mut elements = Vec::with_capacity(places.len());
        for &span in &places {
            let part = span.of(text);
            if part.is_empty() {
                return Err(nothing_written(text, span, places.len()));
            }
            if part.starts_with('!') && places.len() > 1 {
                return Err(lonely_not(text, span, &places));
            }
            let meaning = meaning(part, span, context)?;
            let text = part.to_owned();
            elements.push(Element {
                text,
                span,
                meaning,
            });
        }
        Ok(Selector { elements })
    }

    /// Whether the selector contains the state word `state`, alone or in an
    /// expression.
    pub fn uses_state(&self, state: State) -> bool {
        self.elements.iter().any(|element| match &element.meaning {
            ElementMeaning::Open(expr) => {
                let in_collection = element.text.rsplit_once('/');
                in_collection.is_some_and(|(_, word)| word == state.as_str())
                    || expr.as_ref().as_ref().is_ok_and(|e| e.uses_state(state))
            }
            ElementMeaning::Word(word) => *word == Word::State(state),
            ElementMeaning::Name(_) | ElementMeaning::Digits(_) | ElementMeaning::Tag(_) => false,
        })
    }

    /// What the expressions of this selector ask of the past of metrics.
    pub fn named_pasts(&self) -> impl Iterator<Item = (&NameRef, Past)> {
        self.exprs().flat_map(Expr::named_pasts)
    }

    pub(crate) fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let elements = self.elements.iter();
        elements.filter_map(|element| match &element.meaning {
            ElementMeaning::Open(expr) => expr.as_ref().as_ref().ok(),
            ElementMeaning::Tag(expr) => Some(&**expr),
            ElementMeaning::Name(_) | ElementMeaning::Digits(_) | ElementMeaning::Word(_) => None,
        })
    }

    /// Whether an expression of this selector names `fact`. With [`Fact::Tmod`],
    /// sources are read again before picking.
    pub fn uses_fact(&self, fact: Fact) -> bool {
        self.elements.iter().any(|element| match &element.meaning {
            ElementMeaning::Open(expr) => expr.as_ref().as_ref().is_ok_and(|e| e.may_use(fact)),
            ElementMeaning::Word(Word::State(_)) => fact == Fact::State,
            ElementMeaning::Tag(_) => fact == Fact::Tag,
            ElementMeaning::Name(_)
            | ElementMeaning::Digits(_)
            | ElementMeaning::Word(Word::All | Word::Last) => false,
        })
    }
}

fn meaning(
    part: &str,
    span: Span,
    context: &ParseContext,
) -> Result<ElementMeaning, SelectorError> {
    if let Some(name) = quoted_name(part) {
        return Ok(ElementMeaning::Name(name));
    }
    if let Some(pick) = Pick::from_digits(part) {
        let syntax = |why| SelectorError::new(SelectorErrorKind::Syntax, span, why);
        return pick.map(ElementMeaning::Digits).map_err(syntax);
    }
    if let Some(word) = Word::from_text(part) {
        return Ok(ElementMeaning::Word(word));
    }
    let tag = part.strip_prefix("tag:");
    if tag.is_some_and(|tag| !tag.is_empty() && tag.chars().all(is_name_char))
        && let Ok(expr) = Expr::parse_selecting(part, context)
    {
        return Ok(ElementMeaning::Tag(Box::new(expr)));
    }
    Ok(ElementMeaning::Open(Box::new(Expr::parse_selecting(
        part, context,
    ))))
}

/// The name in a text that is backticks from end to end.
pub(crate) fn quoted_name(text: &str) -> Option<String> {
    (text.starts_with('`') && quoted_len(text, '`') == Some(text.len()))
        .then(|| text[1..text.len() - 1].replace("``", "`"))
}

fn nothing_written(text: &str, span: Span, elements: usize) -> SelectorError {
    if elements == 1 {
        let error = SelectorError::new(SelectorErrorKind::Syntax, span, "the selector is empty");
        return error.hint("such as `144`, `124-186`, `crashed`, `all`");
    }
    let message = "nothing stands at one side of this comma";
    let behind = || text[span.end..].find(',').map(|at| span.end + at);
    let comma = text[..span.start].rfind(',').or_else(behind);
    let place = comma.map_or(span, |at| Span::new(at, at + 1));
    SelectorError::new(SelectorErrorKind::Syntax, place, message)
}

/// `loss > 0,25` would pick experiment 25, which the user did not mean; with a blank behind
/// the comma it does.
fn decimal_comma(text: &str, places: &[Span]) -> Option<SelectorError> {
    let pair = places.windows(2).find(|pair| {
        let (left, right) = (pair[0].of(text), pair[1].of(text));
        let before = left.trim_end_matches(|c: char| c.is_ascii_digit());
        let compared = before
            .trim_end_matches([' ', '-'])
            .ends_with(['<', '>', '=']);
        let digits = right.bytes().take_while(u8::is_ascii_digit).count();
        let is_whole = !right[digits..].starts_with(['-', ':', '.']);
        compared
            && before.len() < left.len()
            && digits > 0
            && is_whole
            && pair[0].end + 1 == pair[1].start
    })?;
    let (left, right) = (pair[0].of(text), pair[1].of(text));
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let decimals = &right[..digits(right)];
    let whole = left.len() - left.bytes().rev().take_while(u8::is_ascii_digit).count();
    let whole = &left[whole..];
    let span = Span::new(pair[0].end - whole.len(), pair[1].start + decimals.len());
    let message = format!("`{whole},{decimals}` is no number");
    let error = SelectorError::new(SelectorErrorKind::Syntax, span, message);
    Some(error.hint(format!(
        "write `{whole}.{decimals}`; a blank behind the comma adds experiment {decimals}"
    )))
}

/// `124-186,!130` would pick everything but 130, which the user did not mean.
fn lonely_not(text: &str, span: Span, places: &[Span]) -> SelectorError {
    let others: Vec<&str> = places
        .iter()
        .filter(|&&place| place != span)
        .map(|place| place.of(text))
        .filter(|part| !part.is_empty() && !part.starts_with('!'))
        .collect();
    let not = span.of(text);
    let hint = match others[..] {
        [] => format!("write `all && {not}`"),
        [other] => format!("write `{other} && {not}`"),
        [..] => format!("write `({}) && {not}`", others.join(" || ")),
    };
    let message = "elements are added up, so `!` beside others takes nothing away";
    SelectorError::new(SelectorErrorKind::Syntax, span, message).hint(hint)
}
