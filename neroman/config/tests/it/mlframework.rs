//! The files in which mlframework names its hosts.

use std::path::Path;

use nero_config::{Mistakes, MlframeworkHosts};

/// `LINE:COLUMN message` of every mistake.
fn mistakes(read: Result<MlframeworkHosts, Mistakes>) -> Vec<String> {
    let Err(mistakes) = read else {
        return Vec::new();
    };
    let each = mistakes.list.iter();
    each.map(|one| format!("{}:{} {}", one.place.line, one.place.column, one.message))
        .collect()
}

fn of_variables(text: &str) -> Vec<String> {
    mistakes(MlframeworkHosts::of_variables(text))
}

#[test]
fn variables_and_the_table_made_of_them_have_the_same_hosts() {
    let text = "\n# saved by infrainit.sh\nREMOTE_PATH=\"ML\"\nPROJ_FOLDER=\"chainer\"\n\
                REMOTE=\"ubuntu@h1,h2\"\nKEY=\"-i /home/ada/my key\"\nSTART_MASTER=\"1\"\n\
                START_WORKER=\"local,2\"";
    let of_variables = MlframeworkHosts::of_variables(text).unwrap();
    let wanted = MlframeworkHosts {
        hosts: vec!["ubuntu@h1".to_owned(), "h2".to_owned()],
        workers: vec![0, 2],
        key: Some("/home/ada/my key".to_owned()),
        remote_path: Some("ML".to_owned()),
        folder: Some("chainer".to_owned()),
        names_master: true,
    };
    assert_eq!(of_variables, wanted);
    let table = "hosts,localhost,ubuntu@h1,h2\nmaster,1\nbroker,1\nworkers,0,2\n\
                 remote_path,ML\nfolder,chainer\nkey,/home/ada/my key\n";
    assert_eq!(MlframeworkHosts::of_table(table).unwrap(), wanted);
}

#[test]
fn without_numbers_every_host_works() {
    let read = MlframeworkHosts::of_variables("REMOTE=\"a,b\"\n").unwrap();
    assert_eq!(read.workers, [1, 2]);
    let read = MlframeworkHosts::of_table("hosts,localhost,\nworkers,0\n").unwrap();
    assert_eq!((read.hosts.len(), read.workers), (0, vec![0]));
    let read = MlframeworkHosts::of_words("a,me@b", "").unwrap();
    assert_eq!(read.workers, [1, 2]);
    let read = MlframeworkHosts::of_words("", "local").unwrap();
    assert_eq!((read.hosts.len(), read.workers), (0, vec![0]));
    assert_eq!(
        MlframeworkHosts::of_words("", "").unwrap(),
        MlframeworkHosts::default()
    );
}

#[test]
fn a_line_that_is_more_than_a_value_is_refused_with_its_place() {
    for (text, wanted) in [
        (
            "REMOTE=\"$(cat hosts)\"",
            "1:9 `$` is no part of a plain value",
        ),
        ("\nKEY=\"`id`\"", "2:6 ``` is no part of a plain value"),
        ("KEY=\"a\\\"b\"", "1:7 `\\` is no part of a plain value"),
        (
            "REMOTE=\"h1\"; rm -rf x",
            "1:12 `;` stands behind the value",
        ),
        ("REMOTE=\"h1\" # mine", "1:12 ` ` stands behind the value"),
        ("REMOTE=\"h1", "1:11 the value has no end"),
        ("REMOTE=h1", "1:1 `REMOTE=h1` is no variable with its value"),
        (
            "export REMOTE=\"h1\"",
            "1:1 `export REMOTE=\"h1\"` is no variable with its value",
        ),
        ("rm -rf x", "1:1 `rm -rf x` is no variable with its value"),
        (
            "REMOTE=\"h1\"\r\nKEY=\"k\"\r\n",
            "1:12 the line holds a carriage return",
        ),
        (
            "REMOTES=\"h1\"",
            "1:1 `REMOTES` is no setting of mlframework",
        ),
        ("REMOTE=\"a\"\nREMOTE=\"b\"", "2:1 `REMOTE` is given twice"),
        ("REMOTE=\"a\tb\"", "1:10 `\\t` is no part of a plain value"),
    ] {
        assert_eq!(of_variables(text), [wanted], "{text:?}");
    }
}

#[test]
fn hosts_that_are_no_hosts_are_refused_each_with_its_place() {
    for (list, wanted) in [
        ("h1,h2,h1", "1:15 the host `h1` is given twice"),
        ("h1,,h2", "1:12 a host is empty"),
        ("h1,", "1:12 a host is empty"),
        (
            "-oProxyCommand=x",
            "1:9 `-oProxyCommand=x` is no address of `ssh`",
        ),
        ("h 1", "1:9 `h 1` is no address of `ssh`"),
    ] {
        // Numbers of hosts are not judged by a list with a mistake.
        let text = format!("REMOTE=\"{list}\"\nSTART_WORKER=\"9\"\n");
        assert_eq!(of_variables(&text), [wanted], "{list}");
    }
}

#[test]
fn numbers_out_of_range_and_missing_rows_are_refused() {
    let of_table = |text: &str| mistakes(MlframeworkHosts::of_table(text));
    for (text, wanted) in [
        (
            "hosts,localhost,a,b\nworkers,1,3\n",
            "2:11 `3` is no number of a host",
        ),
        (
            "hosts,localhost,a\nmaster,2\nworkers,1\n",
            "2:8 `2` is no number of a host",
        ),
        (
            "hosts,localhost,a\nworkers,-1\n",
            "2:9 `-1` is no number of a host",
        ),
        (
            "hosts,localhost,a\nworkers,1,1\n",
            "2:11 host 1 is given twice",
        ),
        (
            "hosts,localhost,a,a\nworkers,1\n",
            "1:19 the host `a` is given twice",
        ),
        (
            "hosts,a,b\nworkers,1\n",
            "1:7 the first host is `localhost`, number 0",
        ),
        ("hosts,localhost,a\n", "1:1 the row `workers` is missing"),
        ("workers,0\n", "1:1 the row `hosts` is missing"),
        (
            "hosts,localhost,a\nworker,1\nworkers,1\n",
            "2:1 `worker` is no setting of mlframework",
        ),
    ] {
        assert_eq!(of_table(text), [wanted], "{text:?}");
    }
    let several = of_table("hosts,localhost,a\nworkers,7,8\n");
    assert_eq!(several.len(), 2, "{several:?}");
}

#[test]
fn a_file_is_read_by_its_name_and_told_with_its_mistakes() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("config.sh"), "REMOTE=\"h1\"\n").unwrap();
    std::fs::write(at("infra.csv"), "hosts,localhost,h1\nworkers,1\n").unwrap();
    let read = |path: &Path| MlframeworkHosts::read(path);
    let (sh, csv) = (read(&at("config.sh")), read(&at("infra.csv")));
    assert_eq!(sh.unwrap().hosts, csv.unwrap().hosts);
    std::fs::write(at("config.sh"), "REMOTE=$(x)\n").unwrap();
    let error = read(&at("config.sh")).unwrap_err().to_string();
    assert!(error.contains("config.sh:1:1"), "{error}");
    std::fs::write(at("config.sh"), b"\xff\n").unwrap();
    assert!(read(&at("config.sh")).is_err(), "it is no text");
    assert!(read(&at("missing.sh")).is_err());
    std::fs::write(at("infra.csv"), vec![b'x'; (1 << 20) + 1]).unwrap();
    let error = read(&at("infra.csv")).unwrap_err().to_string();
    assert!(error.contains("larger"), "{error}");
}
