use std::rc::Rc;

use nero_yaml::{Entry, Kind, Mark, Node};
use proptest::prelude::*;

use crate::read;

fn tree(text: &str) -> Rc<Node> {
    let (root, wrongs) = read(text).expect("parses");
    assert!(wrongs.is_empty(), "{wrongs:?}");
    root.expect("holds a value")
}

fn entries(node: &Node) -> &[Entry] {
    match &node.kind {
        Kind::Map(entries) => entries,
        Kind::Scalar { .. } | Kind::List(_) => panic!("{} is no map", node.describe()),
    }
}

/// Keys and scalars, as they would be written in one line.
fn shown(node: &Node) -> String {
    match &node.kind {
        Kind::Scalar { text, .. } => text.clone(),
        Kind::List(items) => {
            let items: Vec<String> = items.iter().map(|item| shown(item)).collect();
            format!("[{}]", items.join(" "))
        }
        Kind::Map(entries) => {
            let entries: Vec<String> = entries
                .iter()
                .map(|entry| format!("{}:{}", entry.key, shown(&entry.value)))
                .collect();
            format!("{{{}}}", entries.join(" "))
        }
    }
}

#[test]
fn scalars_stay_as_they_are_written() {
    let root = tree("a: 0.10\nb: no\nc: '0.10'\nd: \"x\\ty\"\ne:\nf: ~\ng: '~'\n");
    let values: Vec<_> = entries(&root)
        .iter()
        .map(|entry| (shown(&entry.value), entry.value.is_null()))
        .collect();
    let plain = |text: &str, null: bool| (text.to_owned(), null);
    let want = [
        plain("0.10", false),
        plain("no", false),
        plain("0.10", false),
        plain("x\ty", false),
        plain("", true),
        plain("~", true),
        plain("~", false),
    ];
    assert_eq!(values, want);
}

#[test]
fn places_are_counted_in_characters_and_bytes() {
    let text = "ä: [ö, !!t 'x']\r\nb:\n  c: &n {d: 1}  # e\n";
    let (root, _) = read(text).expect("parses");
    let root = root.expect("holds a value");
    let list = &entries(&root)[0].value;
    assert_eq!(list.mark, Mark { line: 1, column: 4 });
    assert!(list.flow && list.tag.is_none());
    assert_eq!(list.written(text), "[ö, !!t 'x']");
    let Kind::List(items) = &list.kind else {
        panic!("{}", list.describe());
    };
    assert_eq!(
        items[1].mark,
        Mark {
            line: 1,
            column: 12
        }
    );
    assert_eq!(items[1].tag.as_deref(), Some("!!t"));
    assert_eq!(items[1].written(text), "'x'");
    let b = &entries(&root)[1];
    assert_eq!(b.key_mark, Mark { line: 2, column: 1 });
    assert_eq!(&text[b.key_bytes.0..b.key_bytes.1], "b");
    assert!(!b.value.flow);
    assert_eq!(entries(&b.value)[0].value.written(text), "{d: 1}");
}

#[test]
fn a_byte_of_a_scalar_has_a_place_where_it_stands_literally() {
    let text = "a: äx > 1\nb: 'äx'\nc: \"\\xe4x\"\n";
    let root = tree(text);
    let column = |index: usize| {
        let value = &entries(&root)[index].value;
        value.mark_inside(text, 'ä'.len_utf8()).column
    };
    assert_eq!([column(0), column(1), column(2)], [5, 6, 4]);
}

#[test]
fn a_scalar_of_two_lines_has_the_place_of_its_beginning() {
    // Two bytes longer than its text, as one in quotes would be.
    let text = "a: é\n  b\n";
    let root = tree(text);
    let value = &entries(&root)[0].value;
    assert_eq!(value.scalar(), Some("é b"));
    assert_eq!(value.mark_inside(text, "é ".len()), value.mark);
}

#[test]
fn merged_entries_stand_where_the_merge_stood_and_give_way() {
    let root = tree(
        "base: &b {x: 1, y: 2}\nmore: &m {y: 3, z: 4}\n\
         all: {a: 0, <<: [*b, *m], x: 5}\n",
    );
    assert_eq!(shown(&entries(&root)[2].value), "{a:0 y:2 z:4 x:5}");
    // Quoted it is a name.
    assert_eq!(shown(&tree("'<<': {x: 1}\n")), "{<<:{x:1}}");
}

#[test]
fn a_text_without_values_has_no_tree() {
    for text in ["", "# remark\n", "\n\n"] {
        assert!(read(text).expect("parses").0.is_none(), "{text:?}");
    }
}

proptest! {
    #[test]
    fn no_text_panics_and_bytes_lie_in_it(
        text in "[-+a-c:{}\\[\\]'\"!&*|>%@?<# \n\t\ré🦀]{0,60}",
    ) {
        if let Ok((Some(root), _)) = read(&text) {
            let mut waiting = vec![root];
            while let Some(node) = waiting.pop() {
                let (start, end) = node.bytes;
                prop_assert!(text.get(start..end).is_some(), "{:?} of {:?}", node.bytes, text);
                match &node.kind {
                    Kind::Scalar { .. } => {}
                    Kind::List(items) => waiting.extend(items.iter().cloned()),
                    Kind::Map(entries) => {
                        waiting.extend(entries.iter().map(|entry| Rc::clone(&entry.value)));
                    }
                }
            }
        }
    }
}
