//! Which formats of cells show a number as a moment or a duration.

use std::collections::HashMap;

use calamine::ExcelDateTimeType::{self, DateTime, TimeDelta};

use crate::xml::{Elements, XmlError, local};

/// What each format of cells makes of a number; none: a number.
pub(super) fn read(xml: &str) -> Result<Vec<Option<ExcelDateTimeType>>, XmlError> {
    let mut elements = Elements::new(xml);
    let (mut codes, mut formats) = (HashMap::new(), Vec::new());
    // The same elements describe named styles.
    let mut is_of_cells = false;
    while let Some(tag) = elements.next_tag()? {
        match local(tag.name) {
            "numFmt" => {
                if let (Some(id), Some(code)) = (tag.value("numFmtId")?, tag.value("formatCode")?) {
                    codes.insert(id.into_owned(), of_code(&code));
                }
            }
            "cellXfs" => is_of_cells = true,
            "cellStyleXfs" | "cellStyles" => is_of_cells = false,
            "xf" if is_of_cells => {
                let id = tag.value("numFmtId")?.unwrap_or_default();
                let built_in = || id.parse().ok().and_then(of_number);
                formats.push(codes.get(&*id).copied().unwrap_or_else(built_in));
            }
            _ => {}
        }
    }
    Ok(formats)
}

/// The formats that every program knows by their numbers.
fn of_number(id: u16) -> Option<ExcelDateTimeType> {
    match id {
        14..=22 | 27..=36 | 45 | 47 | 50..=58 => Some(DateTime),
        46 => Some(TimeDelta),
        _ => None,
    }
}

/// The kind of a number format in its written form, `[h]:mm` or `d/m/yy;@`. Of its sections the
/// first counts, which is for positive numbers.
fn of_code(code: &str) -> Option<ExcelDateTimeType> {
    let mut chars = code.chars();
    let mut before = ' ';
    while let Some(c) = chars.next() {
        match c.to_ascii_lowercase() {
            // The next character is shown, skipped or repeated.
            '\\' | '_' | '*' => drop(chars.next()),
            '"' => drop(chars.by_ref().find(|c| *c == '"')),
            '[' => {
                let inner: String = chars.by_ref().take_while(|c| *c != ']').collect();
                let inner = inner.to_ascii_lowercase();
                let is_all = |unit| !inner.is_empty() && inner.chars().all(|c| c == unit);
                if ['h', 'm', 's'].into_iter().any(is_all) {
                    return Some(TimeDelta);
                }
            }
            ';' => return None,
            'd' | 'm' | 'h' | 'y' | 's' => return Some(DateTime),
            '/' | 'p' if before == 'a' => return Some(DateTime),
            c => before = c,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{DateTime, TimeDelta, of_code};

    #[test]
    fn codes_of_dates_are_told_from_those_of_numbers() {
        for code in [
            "DD/MM/YY",
            "H:MM:SS;@",
            "m\"M\"d\"D\";@",
            "[$-404]e\"\u{fc}\"m",
            "ha/p\\\\m",
            "A/P",
            "*-yyyy-mm-dd",
        ] {
            assert_eq!(of_code(code), Some(DateTime), "{code}");
        }
        for code in [
            "[h]:mm:ss",
            "[ss]",
            "[s].000",
            "[mm]",
            "[Blue]\\+[h]:mm;[Red]\\-[h]:mm",
            "[>=100][Magenta][s].00",
            "[H];[=0]\\-",
        ] {
            assert_eq!(of_code(code), Some(TimeDelta), "{code}");
        }
        for code in [
            "General",
            "#,##0\\ [$\u{20bd}-46D]",
            "\"Y: \"0.00\"m\";\"Y: \"-0.00\"m\"",
            "0_ ;[Red]\\-0\\ ",
            "\"$\"#,##0_);[Red](\"$\"#,##0)",
            "\\Y000000",
            "#,##0.0####\" YMD\"",
            "#,##0*y",
            "0;yyyy",
            "[>=100][Magenta]General",
            "#,##0.00\\ _M\"H\"_)",
            "0.00E+00",
            "@",
            "",
        ] {
            assert_eq!(of_code(code), None, "{code}");
        }
    }
}
