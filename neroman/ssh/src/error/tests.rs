use super::*;

#[test]
fn a_machine_that_is_short_of_something_is_tried_again() {
    let (enoent, eagain, eacces, emfile, enospc) = (2, 11, 13, 24, 28);
    let error = |errno, is_program: bool| {
        let source = io::Error::from_raw_os_error(errno);
        let trouble = if is_program {
            Trouble::NoProgram {
                program: "ssh".to_owned(),
                source,
            }
        } else {
            Trouble::Folder {
                folder: PathBuf::from("/f"),
                source,
            }
        };
        SshError::new("n", "a", trouble)
    };
    for (errno, needs_user) in [
        (enoent, true),
        (eacces, true),
        (eagain, false),
        (emfile, false),
        (enospc, false),
    ] {
        for is_program in [true, false] {
            let error = error(errno, is_program);
            assert_eq!(error.needs_user(), needs_user, "{error:?}");
            let passes = error.hint().is_some_and(|hint| hint.contains("may pass"));
            assert_eq!(passes, !needs_user, "{error:?}");
        }
    }
}

#[test]
fn a_ticket_is_named_where_tickets_are_taken() {
    for (methods, named) in [("publickey,gssapi-with-mic", true), ("publickey", false)] {
        let refused = Trouble::Refused {
            methods: methods.to_owned(),
            keys: Vec::new(),
        };
        let hint = SshError::new("n", "a", refused).hint();
        assert_eq!(hint.is_some_and(|hint| hint.contains("kinit")), named);
    }
}

#[test]
fn a_shell_is_quoted_shortly_and_one_that_is_none_is_named() {
    let shell = |said: &[u8]| {
        let what = "ends without running a command";
        let said = said.to_vec();
        SshError::new("n", "a", Trouble::Shell { what, said })
    };
    let endless = shell(&b"y\n".repeat(40_000));
    let cause = std::error::Error::source(&endless).expect("a cause");
    assert_eq!(
        cause.to_string(),
        "the login shell ends without running a command: y …"
    );
    assert!(endless.hint().expect("a hint").contains("start-up files"));
    let none = shell(b"This account is currently not available.\n");
    assert!(none.hint().expect("a hint").contains("administrator"));
}
