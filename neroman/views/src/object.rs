//! JSON objects whose keys are the names of a message's fields.

/// Makes an object of a message. `bytes` is the field of that name, `hint?` a text that is null
/// when it is empty, `runs: [run => …]` a list with an object of each message in the field `runs`,
/// and `id: value` any other value.
#[macro_export]
macro_rules! object {
    ($message:expr => $($fields:tt)*) => {{
        let message = &$message;
        let mut object = ::serde_json::Map::new();
        $crate::object!(@ message object $($fields)*);
        ::serde_json::Value::Object(object)
    }};
    (@ $message:ident $object:ident) => {};
    (@ $message:ident $object:ident
        $key:ident: [$one:ident => $($fields:tt)*] $(, $($more:tt)*)?) => {
        let list = $message.$key.iter().map(|$one| $crate::object!($one => $($fields)*));
        $crate::object!(@ $message $object $key: list.collect::<Vec<_>>() $(, $($more)*)?);
    };
    (@ $message:ident $object:ident $key:ident: $value:expr $(, $($more:tt)*)?) => {
        $object.insert(stringify!($key).to_owned(), ::serde_json::json!($value));
        $crate::object!(@ $message $object $($($more)*)?);
    };
    (@ $message:ident $object:ident $key:ident? $(, $($more:tt)*)?) => {
        $crate::object!(@ $message $object $key: $crate::json::some(&$message.$key) $(, $($more)*)?);
    };
    (@ $message:ident $object:ident $key:ident $(, $($more:tt)*)?) => {
        $crate::object!(@ $message $object $key: $message.$key $(, $($more)*)?);
    };
}

#[cfg(test)]
mod tests {
    use nero_wire::v1::{ExperimentView, Override};

    #[test]
    fn an_object_has_the_fields_of_a_message_in_their_order() {
        let one = Override {
            text: "0.1".to_owned(),
            ..Override::default()
        };
        let object = object!(one => text, key, source?, length: one.text.len());
        assert_eq!(
            object.to_string(),
            r#"{"text":"0.1","key":"","source":null,"length":3}"#
        );
        let view = ExperimentView {
            overrides: vec![one],
            ..ExperimentView::default()
        };
        let object = object!(view => overrides: [one => value: one.text, source?], id);
        assert_eq!(
            object.to_string(),
            r#"{"overrides":[{"value":"0.1","source":null}],"id":0}"#
        );
    }
}
