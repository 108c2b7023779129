//! Tables: rows become experiments, and mistakes have cells.

use std::path::Path;

use nero_format::{Defaults, LoadedSource, TableOptions, Value, companion, is_table, read_table};
use nero_table::{Sheet, UnreadableTable};

use crate::{Folder, commands, named, names, texts, value};

fn cells(path: &Path, sheet: Option<&str>) -> Result<Sheet, UnreadableTable> {
    let ending = path
        .extension()
        .and_then(|ending| ending.to_str())
        .unwrap_or("");
    nero_spreadsheet::read(&std::fs::read(path).unwrap(), ending, sheet)
}

/// A folder with a table of text, and the YAML file beside it.
fn folder(table: &str, yaml: &str) -> Folder {
    let folder = Folder::new();
    folder.write("plan.csv", table.as_bytes());
    if !yaml.is_empty() {
        folder.write("plan.yaml", yaml.as_bytes());
    }
    folder
}

fn read_in(folder: &Folder, name: &str, options: &TableOptions) -> Result<LoadedSource, String> {
    let path = folder.path().join(name);
    read_table(&path, options, &Defaults::default(), &cells).map_err(|errors| {
        let dir = folder.path();
        let dir = dir.parent().unwrap().to_str().unwrap();
        errors.to_string().replace(dir, "DIR")
    })
}

fn read(table: &str, yaml: &str) -> Result<LoadedSource, String> {
    read_in(&folder(table, yaml), "plan.csv", &TableOptions::default())
}

fn load(table: &str, yaml: &str) -> LoadedSource {
    read(table, yaml).unwrap_or_else(|report| panic!("{report}"))
}

fn report(table: &str, yaml: &str) -> String {
    match read(table, yaml) {
        Ok(loaded) => panic!("no mistake was found: {loaded:#?}"),
        Err(report) => report,
    }
}

fn notes(loaded: &LoadedSource) -> String {
    let notes = loaded.notes.iter().map(|note| match &note.place {
        Some(place) => format!("{place}: {}\n", note.text),
        None => format!("{}\n", note.text),
    });
    notes.collect()
}

fn numbers(loaded: &LoadedSource) -> Vec<Option<u64>> {
    loaded.definitions.iter().map(|one| one.number).collect()
}

#[test]
fn a_row_is_an_experiment_with_its_number_and_what_was_typed() {
    let loaded = load(
        "nr,name,lr,n,comments\n12,base,0.10,010,fine\n3,,1e-3,5,\n",
        "command: python3 main.py {lr} {n}\nresources: {cpus: 2}\n",
    );
    assert_eq!(names(&loaded), ["base", "plan_3"]);
    assert_eq!(numbers(&loaded), [Some(12), Some(3)]);
    assert_eq!(
        commands(&loaded),
        ["python3|main.py|0.10|010", "python3|main.py|1e-3|5"]
    );
    let base = named(&loaded, "base");
    assert_eq!(value(base, "lr"), &Value::Float(0.1));
    assert_eq!(value(base, "n"), &Value::Int(10));
    assert_eq!(base.resources.cpus, 2.0);
    assert_eq!(*base.block, "plan");
    assert!(
        base.place.to_string().ends_with("plan.csv:B2"),
        "{}",
        base.place
    );
    assert_eq!(
        notes(&loaded),
        "the command does not use `comments`; the job sees them in its environment only\n"
    );
}

#[test]
fn a_column_named_as_a_field_is_the_field_of_its_row() {
    let loaded = load(
        "id;command;collection;resources/cpus;outputs;rules;lr\n\
         1;python3 main.py --rate {lr};mine;3;[stdout, '*.pt'];\"[{abort: loss > 2}]\";0,5\n\
         2;./run.sh;;;;;\n",
        "resources: {memory: 1G}\ncollection: all\n",
    );
    let (first, second) = (&loaded.definitions[0], &loaded.definitions[1]);
    assert_eq!(first.argv, ["python3", "main.py", "--rate", "0.5"]);
    assert_eq!(second.argv, ["./run.sh"]);
    assert_eq!((first.collection(), second.collection()), ("mine", "all"));
    assert_eq!(first.outputs.len(), 2);
    assert_eq!(first.rules[0].text, "loss > 2");
    assert!(first.rules[0].place.to_string().ends_with("plan.csv:F2"));
    assert_eq!(second.resources.memory_bytes, Some(1 << 30));
    assert!(
        notes(&loaded).contains("`0,5` is read as 0.5"),
        "{}",
        notes(&loaded)
    );
}

#[test]
fn a_group_gives_its_map_keys_and_keeps_what_all_rows_have() {
    let loaded = load(
        "nr,resources,,env,parameters,\n,cpus,time,OMP,lr,\n1,4,2h,8,0.1,\n2,,,,0.2,\n",
        "command: python3 main.py {lr}\nresources: {cpus: 1, memory: 1G}\n",
    );
    let (first, second) = (&loaded.definitions[0], &loaded.definitions[1]);
    assert_eq!((first.resources.cpus, second.resources.cpus), (4.0, 1.0));
    assert_eq!(first.resources.time_ms, Some(7_200_000));
    assert_eq!(first.resources.memory_bytes, second.resources.memory_bytes);
    assert_eq!(*first.env, [("OMP".to_owned(), Some("8".to_owned()))]);
    assert_eq!(texts(&loaded, "lr"), ["0.1", "0.2"]);
    assert!(
        notes(&loaded).contains("rows 1 and 2 are the header"),
        "{}",
        notes(&loaded)
    );
}

#[test]
fn groups_tell_columns_of_one_name_apart() {
    let table = ",,,Test,,Train,,Code,Params,\n\
                 date,status,name,10ep,50ep,10ep,50ep,pyth,learning rate,comments\n\
                 2015-05-20,,one,0.67,,,,python3 main.py --lr 0.1,0.1,\n\
                 ,,,,,,,,,\n\
                 ,TODO,two,,,,,,0.2,later\n";
    let yaml = "table: {command: Code/pyth, status: status, ignore: [date, Params/comments], split: true}\n\
                results: {Test/10ep: 'min(err)', Test/50ep: err, Train/10ep: err, Train/50ep: err}\n";
    let loaded = load(table, yaml);
    assert_eq!(names(&loaded), ["one"]);
    assert_eq!(commands(&loaded), ["python3|main.py|--lr|0.1"]);
    assert_eq!(texts(&loaded, "Params/learning rate"), ["0.1"]);
    assert_eq!(loaded.definitions[0].params.len(), 1);
    let notes = notes(&loaded);
    assert!(
        notes.contains("left out, without a command: row 5"),
        "{notes}"
    );
    // Not in the last group.
    let column = loaded.numbers.unwrap();
    assert_eq!(
        (column.column, column.header_row, column.first_row),
        (11, Some(1), 3)
    );
    let numbered = table.replacen("Params,\n", "Params,,nero\n", 1);
    let numbered = numbered.replacen("0.1,0.1,\n", "0.1,0.1,,7\n", 1);
    let loaded = load(&numbered, yaml);
    assert_eq!(numbers(&loaded), [Some(7)]);
    let bound = loaded.source.bound.unwrap();
    assert_eq!((bound.number.as_str(), bound.header_rows), ("nero", 2));
    let headings = bound.columns.iter().map(|column| column.heading.as_str());
    let headings: Vec<&str> = headings.collect();
    assert_eq!(
        headings,
        [
            "status",
            "Test/10ep",
            "Test/50ep",
            "Train/10ep",
            "Train/50ep"
        ]
    );
    let shown = nero_format::ShownValue::Expression("min(err)".to_owned());
    assert_eq!(bound.columns[1].shows, shown);
}

#[test]
fn a_mistake_in_a_result_is_told_at_its_place() {
    let table = "nr,command,best\n1,main,\n";
    let report = report(table, "results: {best: 'loss * (1 +'}\n");
    assert!(report.contains("plan.yaml:1:"), "{report}");
    assert!(report.contains("loss * (1 +"), "{report}");
    let twice = self::report(table, "results: {best: loss, Best: acc}\n");
    assert!(
        twice.contains("plan.yaml:1:23") && twice.contains("`best` shows something already"),
        "{twice}"
    );
    // Everything that selectors know, also what no rule beside a job could use.
    let loaded = load(table, "results: {best: 'reason'}\n");
    assert!(loaded.source.bound.is_some());
    // Rows without numbers of their own get a column of them.
    let loaded = load(
        "command,best\nmain,\n",
        "table: {ignore: []}\nresults: {best: loss}\n",
    );
    assert_eq!(loaded.source.bound.unwrap().number, "nero");
}

#[test]
fn states_replace_the_words_of_the_owner_that_she_names() {
    let table = "nr,command,state\n1,true,TODO\n";
    let bound = |yaml| load(table, yaml).source.bound.unwrap();
    let one = bound("table: {status: {column: state, over: TODO}}\n");
    assert_eq!(one.columns[0].over, ["TODO"]);
    assert_eq!(one.columns[0].heading, "state");
    let two = bound("table: {status: {over: [TODO, again], column: state}}\n");
    assert_eq!(two.columns[0].over, ["TODO", "again"]);
    let none = bound("table: {status: {column: state}}\n");
    assert!(none.columns[0].over.is_empty());
    let nowhere = report(table, "table: {status: {over: [TODO]}}\n");
    assert!(
        nowhere.contains("`table.status` names no column")
            && nowhere.contains("status: {column: status, over: [TODO]}"),
        "{nowhere}"
    );
    let slip = report(table, "table: {status: {colum: state}}\n");
    assert!(slip.contains("`column`"), "{slip}");
}

#[test]
fn an_empty_column_is_one_mistake() {
    let rows: String = (1..=76).map(|row| format!("{row},0.{row},\n")).collect();
    let table = format!("nr,lr,seed\n{rows}");
    let told = report(&table, "command: python3 main.py {lr} {seed}\n");
    assert_eq!(told.matches("this cell is empty").count(), 1, "{told}");
    assert!(
        told.contains("plan.csv:C2") && told.contains("the same in rows 3-77"),
        "{told}"
    );
    let told = report("nr,lr\n1,0.1\n", "");
    assert!(
        told.contains("no row has a command") && told.contains("`table: {command: COLUMN}`"),
        "{told}"
    );
}

#[test]
fn split_splits_what_a_value_brings() {
    let table = "id,args\n1,\"--lr 0.1 --name 'a b'\"\n";
    let loaded = load(
        table,
        "table: {split: true}\ncommand: python3 main.py {args}\n",
    );
    assert_eq!(commands(&loaded), ["python3|main.py|--lr|0.1|--name|a b"]);
    let loaded = load(table, "command: python3 main.py {args}\n");
    assert_eq!(commands(&loaded), ["python3|main.py|--lr 0.1 --name 'a b'"]);
}

#[test]
fn rows_without_names_and_numbers_are_called_after_the_numbers_that_they_get() {
    let loaded = load(
        "lr,n,seed,command\n0.1,1,7,true {lr}\n0.2,1,7,true {lr}\n0.2,1,7,true {lr}\n,1,7,true\n",
        "",
    );
    assert_eq!(names(&loaded), [""; 4]);
    assert_eq!(*loaded.definitions[0].block, "plan");
    assert_eq!(*loaded.definitions[0].varied, ["lr"]);
    assert_eq!(numbers(&loaded), [None; 4]);
    let column = loaded.numbers.unwrap();
    assert_eq!(
        (column.column, column.header_row, column.first_row),
        (5, Some(1), 2)
    );
}

#[test]
fn a_nero_column_numbers_rows_renames_none_and_has_room_for_new_ones() {
    let table = "lr,nero,command\n0.1,,true {lr}\n0.2,,true {lr}\n";
    let before = load(table, "");
    assert_eq!(numbers(&before), [None, None]);
    let column = before.numbers.clone().unwrap();
    assert_eq!((column.column, column.header_row), (2, None));
    let after = load(&table.replacen(",,", ",12,", 1), "");
    assert_eq!(numbers(&after), [Some(12), None]);
    assert_eq!(names(&after), names(&before));
    assert_eq!(notes(&after), "");
    assert_eq!(load("nr,command\n1,true\n,true\n", "").numbers, None);
}

#[test]
fn a_table_where_a_column_would_not_be_sorted_with_the_rows_gets_none() {
    for (table, yaml, told) in [
        (
            "lr,,command\n0.1,,true {lr}\n",
            "",
            "a column without a name",
        ),
        (
            "lr,command\n0.1,true {lr},seen\n",
            "",
            "a column without a name",
        ),
        (
            "nero,command\nyes,true {nero}\n",
            "",
            "holds something else",
        ),
        (
            "a,command\nyes,true {a}\n",
            "table: {number: a}\n",
            "names another column",
        ),
    ] {
        let loaded = load(table, yaml);
        assert_eq!(loaded.numbers, None, "{table}");
        let notes = notes(&loaded);
        assert!(
            notes.contains("no column of numbers") && notes.contains(told),
            "{notes}"
        );
    }
}

#[test]
fn a_column_called_like_numbers_that_holds_none_is_a_parameter() {
    let loaded = load("no,command\nyes,true {no}\nnever,true {no}\n", "");
    assert_eq!(texts(&loaded, "no"), ["yes", "never"]);
    assert!(
        notes(&loaded).contains("plan.csv:A1: the column `no` holds no number"),
        "{}",
        notes(&loaded)
    );
}

#[test]
fn rows_that_are_no_experiments_are_counted() {
    let loaded = load(
        "Nr.,command,lr\n1,true,\n,,\n3,,0.1\n,true,0.2\n5,true,\n,,0.5\n7,,\n8,,\n",
        "",
    );
    assert_eq!(numbers(&loaded), [Some(1), Some(5)]);
    let notes = notes(&loaded);
    assert!(notes.contains("without a command: rows 4, 7-9"), "{notes}");
    assert!(notes.contains("without a number: row 5"), "{notes}");
}

#[test]
fn rows_that_are_only_numbered_are_told_once() {
    let table = "nr,lr,layers,note\n1,0.1,2,\n2,,,soon\n3,,,\n4,,2,\n";
    let report = report(
        table,
        "command: main {lr} {layers}\ntable: {ignore: note}\n",
    );
    // Who fills one cell of a row and not the other is told of that cell.
    assert_eq!(report.matches("error:").count(), 1, "{report}");
    assert!(report.contains("plan.csv:B5"), "{report}");
    let table = table.replace("4,,2,\n", "");
    let yaml = "command: main {lr} {layers}\ntable: {ignore: note}\n";
    let loaded = load(&table, yaml);
    assert_eq!(numbers(&loaded), [Some(1)]);
    let told = notes(&loaded);
    assert!(
        told.contains("left out, with a number alone: rows 3-4"),
        "{told}"
    );
    // With values for all rows a number is enough.
    let loaded = load(&table, &format!("{yaml}parameters: {{lr: 1, layers: 3}}\n"));
    assert_eq!(commands(&loaded), ["main|0.1|2", "main|1|3", "main|1|3"]);
    let report = self::report("nr,lr\n1,\n2,\n", "command: main {lr}\n");
    assert_eq!(report.matches("error:").count(), 1, "{report}");
    assert!(
        report.contains("no row has a value for the command"),
        "{report}"
    );
}

#[test]
fn a_place_names_the_one_column_of_any_group() {
    let table = "nr,Params,,Test,\n,lr,n,n,best\n1,0.1,2,5,\n2,0.2,3,,\n";
    let yaml =
        "command: main {lr} {Params/n} {lr:.2f}\ntable: {header_rows: 2, ignore: Test/best}\n";
    let loaded = load(table, yaml);
    assert_eq!(commands(&loaded), ["main|0.1|2|0.10", "main|0.2|3|0.20"]);
    // Its name is the one of the column, in names and selectors.
    assert_eq!(texts(&loaded, "Params/lr"), ["0.1", "0.2"]);
    // Of two columns neither is meant, also in a row that has one of them alone.
    let report = report(
        &table.replace("1,0.1,2,5,\n", ""),
        &yaml.replace("{Params/n}", "{n}"),
    );
    assert!(report.contains("`n` names no parameter"), "{report}");
    // A parameter of this very name comes first, and an empty cell is told.
    let loaded = load(table, &format!("{yaml}parameters: {{lr: 7}}\n"));
    assert_eq!(commands(&loaded)[0], "main|7|2|7.00");
    let report = self::report(&table.replace("2,0.2,3", "2,,3"), yaml);
    assert!(
        report.contains("plan.csv:B4") && report.contains("this cell is empty"),
        "{report}"
    );
}

#[test]
fn an_empty_cell_with_a_place_in_the_script_is_told() {
    let table = "id,lr,n\n1,0.1,2\n2,,3\n";
    let said = report(table, "script: 'main {lr} ${n}'\n");
    assert!(
        said.contains("plan.csv:B3") && said.contains("this cell is empty"),
        "{said}"
    );
    // Variables of bash, and a script that a row's own command replaces, have no place.
    load(table, "script: 'main ${lr} {lr:-1} {n}'\n");
    load("id,lr,command\n1,,true\n", "script: 'main {lr}'\n");
}

#[test]
fn the_offset_is_part_of_the_number() {
    let folder = folder("id,command\n1,true\n2,true\n", "");
    let options = TableOptions {
        with: None,
        offset: 100,
    };
    let loaded = read_in(&folder, "plan.csv", &options).unwrap();
    assert_eq!(numbers(&loaded), [Some(101), Some(102)]);
    assert_eq!(names(&loaded), ["plan_101", "plan_102"]);
    assert_eq!(loaded.source.table, Some(options));
}

#[test]
fn another_yaml_file_is_named_with_it() {
    let folder = folder("id,lr\n1,0.1\n", "command: true\n");
    folder.write("other.yaml", b"command: main {lr}\n");
    let path = folder.path().join("plan.csv");
    assert_eq!(
        companion(&path, None),
        Some(folder.path().join("plan.yaml"))
    );
    let options = TableOptions {
        with: Some(folder.path().join("other.yaml")),
        offset: 0,
    };
    let loaded = read_in(&folder, "plan.csv", &options).unwrap();
    assert_eq!(commands(&loaded), ["main|0.1"]);
    // Either file changes what the source is.
    let before = read_in(&folder, "plan.csv", &TableOptions::default()).unwrap();
    folder.write("plan.yaml", b"command: 'false'\n");
    let after = read_in(&folder, "plan.csv", &TableOptions::default()).unwrap();
    assert_ne!(before.source.digest, after.source.digest);
    assert!(is_table(Path::new("a/B.XLSX")) && !is_table(Path::new("a.yaml")));
}

#[test]
fn all_mistakes_are_told_at_once_each_with_its_cell() {
    let report = report(
        "nr,name,lr,command,resources/cpus,node\n\
         1,a,0.1,main {lr} {x},two,alpha\n\
         1.5,b,0.1,main {lr},,\n\
         7,a,,main {lr},,a b\n\
         7,d,0.1,\"main 'x\",,\n\
         20260520001,e,0.1,main,,\n\
         -3,f,#REF!,main,,\n",
        "table: {sheetz: x, number: nr}\nresults: {best: min(loss)}\nresorces: {cpus: 1}\n",
    );
    insta::assert_snapshot!(report);
}

#[test]
fn a_wrong_number_is_one_mistake() {
    let report = report(
        "nr,command\n1.5,echo a\n3,echo a\n3,echo a\n-1,echo a\n20260520001,echo a\n",
        "",
    );
    assert_eq!(report.matches("error:").count(), 4, "{report}");
    assert!(!report.contains("collection"), "{report}");
}

#[test]
fn a_table_without_a_header_or_rows_is_told_at_a_cell() {
    insta::assert_snapshot!(
        [
            report("0.1,10,python main.py\n0.2,20,python main.py\n", ""),
            report("lr,lr,command\n1,2,main\n", ""),
            report("lr,n\n1,2\n", ""),
            report("lr,command\n", ""),
            report("\n\n,,\n", ""),
            report("lr,command\n1,\"main\n", ""),
            report("lr,command\n1,main\n", "+block: {command: main}\n"),
            report("lr,command\n1,main\n", "table: {sheet: Plan}\n"),
            report(
                "lr,command\n1,main\n",
                "table: {header_rows: 3, command: comand}\n"
            ),
        ]
        .join("\n")
    );
}

#[test]
fn a_formula_without_a_value_is_a_mistake_where_it_is_used() {
    let folder = Folder::new();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../spreadsheet/tests/golden");
    std::fs::copy(
        golden.join("openpyxl.xlsx"),
        folder.path().join("plan.xlsx"),
    )
    .unwrap();
    folder.write("plan.yaml", b"table: {command: Code/command}\n");
    let report = read_in(&folder, "plan.xlsx", &TableOptions::default()).unwrap_err();
    assert!(report.contains("plan.xlsx:Experiments!H4"), "{report}");
    assert!(
        report.contains("the formula has no value in the file"),
        "{report}"
    );
    // A column that nobody reads may hold anything.
    folder.write(
        "plan.yaml",
        b"table: {ignore: [Code/command, Test/10ep, Test/50ep]}\ncommand: echo {Params/lr}\n",
    );
    let report = read_in(&folder, "plan.xlsx", &TableOptions::default());
    let loaded = report.unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(numbers(&loaded), [1, 2, 3, 4].map(Some));
    assert_eq!(
        texts(&loaded, "date"),
        ["2015-05-20", "2015-05-27T14:30:00"]
    );
    assert_eq!(named(&loaded, "first").argv, ["echo", "0.673181"]);
}

/// The JSON of the parameters of a name, row by row.
fn jsons(loaded: &LoadedSource, name: &str) -> Vec<String> {
    let params = loaded.definitions.iter().flat_map(|one| &one.params);
    let named = params.filter(|param| param.name == name);
    named.map(nero_format::Param::json).collect()
}

#[test]
fn a_text_cell_is_a_text_whatever_it_looks_like() {
    let loaded = load(
        "nr,opt,land,at,seed,amp,clip,b\n1,null,NO,~,18446744073709551615,TRUE,.inf,3\n2,,no,x,007,FALSE,nan,4\n",
        "command: p {b}\nparameters: {opt: adam}\n",
    );
    assert_eq!(jsons(&loaded, "opt"), ["\"null\"", "\"adam\""]);
    assert_eq!(jsons(&loaded, "land"), ["\"NO\"", "\"no\""]);
    assert_eq!(jsons(&loaded, "at"), ["\"~\"", "\"x\""]);
    assert_eq!(jsons(&loaded, "seed"), ["18446744073709551615", "7"]);
    assert_eq!(jsons(&loaded, "amp"), ["true", "false"]);
    assert_eq!(jsons(&loaded, "clip"), ["Infinity", "NaN"]);
}

#[test]
fn a_title_above_the_header_is_no_header_and_the_row_of_the_header_can_be_named() {
    let plan = "Plan of spring,,\n,,\nnr,lr,word\n7,0.1,a\n9,0.2,b\n";
    let yaml = "command: p {lr}\n";
    let loaded = load(plan, yaml);
    assert_eq!(numbers(&loaded), [Some(7), Some(9)]);
    assert_eq!(commands(&loaded), ["p|0.1", "p|0.2"]);
    assert!(
        notes(&loaded).contains("row 1 above the header in row 3 is left out"),
        "{}",
        notes(&loaded)
    );
    let touching = "Plan of spring,,\nnr,lr,word\n7,0.1,a\n9,0.2,b\n";
    assert_eq!(numbers(&load(touching, yaml)), [Some(7), Some(9)]);
    let several = "By,Ada\nOn,2026-11-20\n\nnr,lr,word\n7,0.1,a\n";
    assert_eq!(numbers(&load(several, yaml)), [Some(7)]);
    // Words of two columns could be names.
    let odd = "Plan,of spring,x\nnr,lr,word\n7,0.1,a\n9,0.2,b\n";
    let named = load(odd, "command: p {lr}\ntable: {header: 2}\n");
    assert_eq!(numbers(&named), [Some(7), Some(9)]);
    // A group above some columns is no title.
    let grouped = "nr,Params,,note\n,lr,n,\n7,0.1,2,a\n";
    assert_eq!(names(&load(grouped, "command: p {lr} {n}\n")), ["plan_7"]);
    let alone = ",Params,\nnr,lr,n\n7,0.1,2\n8,0.1,3\n";
    let alone = load(alone, "command: p {lr} {n}\n");
    assert_eq!(texts(&alone, "Params/lr"), ["0.1", "0.1"]);
}

#[test]
fn a_column_that_is_called_as_a_field_is_told_and_can_be_a_parameter() {
    let plan = "nr,steps,checkpoint,lr\n1,1000,best.pt,0.1\n";
    let told = report(plan, "command: p {lr}\n");
    assert!(
        told.contains("if it is a parameter: `table: {parameters: [steps]}` in plan.yaml"),
        "{told}"
    );
    let loaded = load("nr,checkpoint,lr\n1,best.pt,0.1\n", "command: p {lr}\n");
    assert!(
        notes(&loaded).contains("the column `checkpoint` is a field of the format and no parameter; `table: {parameters: [checkpoint]}`"),
        "{}",
        notes(&loaded)
    );
    let yaml = "command: p {lr} {env} {steps}\ntable: {parameters: [env, steps, setup]}\n";
    let loaded = load(
        "nr,env,steps,setup,lr\n1,CartPole-v1,1000,rm -r x,0.1\n",
        yaml,
    );
    assert_eq!(commands(&loaded), ["p|0.1|CartPole-v1|1000"]);
    assert_eq!(texts(&loaded, "setup"), ["rm -r x"]);
    assert!(!notes(&loaded).contains("field"), "{}", notes(&loaded));
}

#[test]
fn a_place_finds_the_column_of_two_words() {
    let loaded = load(
        "nr,learning rate\n1,0.1\n2,0.2\n",
        "command: p {learning_rate} {Learning-Rate:.3f}\n",
    );
    assert_eq!(commands(&loaded), ["p|0.1|0.100", "p|0.2|0.200"]);
    let empty = report("nr,learning rate,n\n1,,2\n", "command: p {learning_rate}\n");
    assert!(empty.contains("plan.csv:B2"), "{empty}");
}

#[test]
fn a_result_that_is_an_operation_without_blanks_is_a_mistake() {
    let plan = "nr,x,st,mins\n1,2,,\n";
    let of = |result: &str| format!("command: p {{x}}\nresults: {{mins: '{result}'}}\n");
    for (result, wanted) in [
        ("runtime/60", "write `runtime / 60`"),
        ("val/1000", "write `val / 1000`"),
        ("loss-x", "write `loss - x`"),
        ("x > 2018-11-20", "is compared with a date"),
    ] {
        let found = match wanted.contains("loss") {
            // Both may be one metric.
            true => notes(&load(plan, &of(result))),
            false => report(plan, &of(result)),
        };
        assert!(found.contains(wanted) || wanted.contains("loss"), "{found}");
    }
    for result in ["2*val", "top-1", "val/loss", "runtime / 60", "`val/1000`"] {
        load(plan, &of(result));
    }
}

#[test]
fn a_rule_that_compares_a_word_with_a_number_is_a_mistake_that_names_the_metric() {
    let plan = "nr,loss,x\n1,mse,1\n2,mae,2\n";
    let yaml = "command: p {x} {loss}\nrules: [{abort: loss > 20}]\n";
    let found = report(plan, yaml);
    assert!(
        found.contains("a metric of that name is `metric.loss`"),
        "{found}"
    );
    load(plan, &yaml.replace("loss > 20", "metric.loss > 20"));
}

#[test]
fn an_error_in_a_column_that_nothing_uses_is_a_note() {
    let plan = "nr,lr,twice\n1,0.1,#VALUE!\n2,0.2,3\n";
    let loaded = load(plan, "command: p {lr}\n");
    assert_eq!(texts(&loaded, "twice"), ["3"]);
    assert!(
        notes(&loaded)
            .contains("the cell holds the error `#VALUE!`: the row has no parameter `twice`"),
        "{}",
        notes(&loaded)
    );
    assert!(report(plan, "command: p {lr} {twice}\n").contains("plan.csv:C2"));
    report(plan, "command: p {lr}\nparameters_style: flags\n");
}

#[test]
fn a_whole_number_without_all_its_digits_is_a_mistake() {
    let plan = "nr,seed,x\n1,1.234567890123457e+18,6.02214076e23\n";
    let told = report(plan, "command: p {seed} {x}\n");
    assert!(told.contains("plan.csv:B2"), "{told}");
    assert!(told.contains("keep such a number as text"), "{told}");
    load(plan, "command: p {x}\n");
}
