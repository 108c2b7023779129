//! `neroman mail test` with a real mail server.

use nero_tests::{Home, MailServer};

#[test]
fn mail_test_prints_what_the_server_says() {
    let home = Home::new();
    let none = home.run(&["mail", "test"]);
    assert_eq!(none.code, Some(2), "{none:?}");
    assert!(
        none.err.contains("neroman config set user.email"),
        "{none:?}"
    );

    let server = MailServer::start(&home.path().join("mail"));
    let (smtp, ca) = (server.address(), server.ca().display().to_string());
    for (key, value) in [
        ("user.email", "ada@example.org"),
        ("mail.smtp", &*smtp),
        ("mail.ca", &*ca),
        ("mail.password_command", "printf secret"),
        ("mail.login", "tester"),
    ] {
        home.ok(&["config", "set", key, value]);
    }
    let said = home.ok(&["mail", "test"]);
    let expected = format!("ada@example.org: {smtp} took it: 250 OK caught as 000001\n");
    assert_eq!(said, expected);
    let caught = server.wait_for(1);
    assert!(caught[0].is_encrypted);
    assert_eq!(caught[0].login.as_deref(), Some("tester"));
    assert_eq!(caught[0].to, ["ada@example.org"]);
    assert_eq!(
        caught[0].header("Subject").as_deref(),
        Some("neronet: mail arrives")
    );

    let refused = home.run(&["mail", "test", "--to", "reject@example.org"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.err.contains("550 5.1.1 no such user"),
        "{refused:?}"
    );
    let refused = home.run(&["mail", "test", "--to", "reject@example.org", "--json"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let json: serde_json::Value = serde_json::from_str(&refused.out).unwrap();
    assert_eq!(json["sent"][0]["outcome"], "refused", "{json}");
    home.ok(&["config", "set", "mail.password_command", "printf wrong"]);
    let refused = home.run(&["mail", "test"]);
    assert!(refused.err.contains("535"), "{refused:?}");
    assert_eq!(
        home.alive(nero_tests::Part::Daemon),
        [],
        "no daemon is needed"
    );
}
