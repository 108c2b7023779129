//! The user's configuration for an address, from `ssh -G`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The settings that matter here, for one address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    values: BTreeMap<String, String>,
}

impl Settings {
    /// Reads the output of `ssh -G`: `name value` lines, names in lower case.
    /// When a name comes twice, the first value counts.
    pub fn parse(text: &[u8]) -> Self {
        let mut values = BTreeMap::new();
        for line in String::from_utf8_lossy(text).lines() {
            if let Some((name, value)) = line.trim_end().split_once(' ') {
                values
                    .entry(name.to_ascii_lowercase())
                    .or_insert_with(|| value.to_owned());
            }
        }
        Self { values }
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.values
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty() && *value != "none")
    }

    /// Path of the user's own master, if the configuration names one.
    pub(crate) fn control_path(&self) -> Option<PathBuf> {
        self.get("controlpath")
            .map(Path::new)
            .filter(|path| path.is_absolute())
            .map(Path::to_path_buf)
    }

    /// Options that undo settings for interactive sessions, and settings that
    /// would keep our commands from running. Only settings that are in force
    /// are undone: an older `ssh` refuses options that it does not know.
    pub(crate) fn undoing(&self) -> Vec<&'static str> {
        let undo = [
            ("remotecommand", "none", "RemoteCommand=none"),
            ("stdinnull", "no", "StdinNull=no"),
            (
                "forkafterauthentication",
                "no",
                "ForkAfterAuthentication=no",
            ),
            ("sessiontype", "default", "SessionType=default"),
        ];
        undo.into_iter()
            .filter(|(name, harmless, _)| {
                let value = self.values.get(*name);
                value.is_some_and(|value| value != harmless)
            })
            .map(|(_, _, option)| option)
            .collect()
    }

    /// The jump host, or the command that makes the connection.
    pub(crate) fn by_way_of(&self) -> Option<&str> {
        self.get("proxyjump").or_else(|| self.get("proxycommand"))
    }

    /// A number of seconds that the user set, unless it is 0 (off).
    fn seconds(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok().filter(|seconds| *seconds > 0)
    }

    /// Seconds for making a connection: the user's, or ours.
    pub(crate) fn connect_seconds(&self) -> u64 {
        const OURS: u64 = 20;
        const MOST: u64 = 120;
        self.seconds("connecttimeout").unwrap_or(OURS).min(MOST)
    }

    /// Interval and count after which a silent connection ends: the user's
    /// values when they are as quick as ours, else ours.
    pub(crate) fn alive(&self) -> (u64, u64) {
        const OURS: (u64, u64) = (15, 2);
        let users = self
            .seconds("serveraliveinterval")
            .zip(self.seconds("serveralivecountmax"));
        match users {
            Some((interval, count)) if interval.saturating_mul(count + 1) <= 45 => {
                (interval, count)
            }
            _ => OURS,
        }
    }

    /// All ciphers that the user allows, with AES-GCM first, for which
    /// processors have instructions. The first choice of `ssh` costs two thirds
    /// of all work of a transfer. `None` where the user or the system ordered
    /// the ciphers; `unset` are the settings of `ssh` without any
    /// configuration.
    pub(crate) fn quicker_ciphers(&self, unset: &Self) -> Option<String> {
        let ciphers = self.get("ciphers")?;
        if unset.get("ciphers") != Some(ciphers) {
            return None;
        }
        let (quick, more): (Vec<&str>, Vec<&str>) =
            ciphers.split(',').partition(|name| name.contains("-gcm@"));
        let reordered = [quick, more].concat().join(",");
        (reordered != ciphers).then_some(reordered)
    }

    /// User, host and port of the address, for a person: `me@10.0.0.7 port 22`.
    pub(crate) fn place(&self) -> String {
        let [user, host, port] =
            ["user", "hostname", "port"].map(|name| self.get(name).unwrap_or_default());
        format!("{user}@{host} port {port}")
    }

    /// Text that is equal for equal destinations and differs for others.
    pub(crate) fn destination(&self) -> String {
        ["user", "hostname", "port", "hostkeyalias"]
            .map(|name| self.get(name).unwrap_or_default())
            .join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ciphers_of_the_user_are_used_where_they_are_no_slower() {
        let quick = Settings::parse(
            b"user me\nconnecttimeout 5\nserveraliveinterval 5\nserveralivecountmax 3\n",
        );
        assert_eq!((quick.connect_seconds(), quick.alive()), (5, (5, 3)));
        let plain =
            Settings::parse(b"connecttimeout none\nserveraliveinterval 0\nserveralivecountmax 3\n");
        assert_eq!((plain.connect_seconds(), plain.alive()), (20, (15, 2)));
        let slow = Settings::parse(b"serveraliveinterval 60\nserveralivecountmax 3\n");
        assert_eq!(slow.alive(), (15, 2));
    }

    #[test]
    fn an_order_of_ciphers_that_somebody_chose_stays() {
        let parse = |ciphers: &str| Settings::parse(format!("ciphers {ciphers}\n").as_bytes());
        let own = parse("chacha20-poly1305@openssh.com,aes128-ctr,aes128-gcm@openssh.com");
        assert_eq!(
            own.quicker_ciphers(&own).as_deref(),
            Some("aes128-gcm@openssh.com,chacha20-poly1305@openssh.com,aes128-ctr")
        );
        let chosen = parse("chacha20-poly1305@openssh.com,aes128-gcm@openssh.com");
        assert_eq!(chosen.quicker_ciphers(&own), None);
        assert_eq!(own.quicker_ciphers(&Settings::default()), None);
        for nothing in ["aes128-gcm@openssh.com,aes128-ctr", "aes128-ctr"] {
            let nothing = parse(nothing);
            assert_eq!(nothing.quicker_ciphers(&nothing), None);
        }
    }

    #[test]
    fn no_path_is_none() {
        assert_eq!(Settings::parse(b"controlpath none\n").control_path(), None);
        assert_eq!(Settings::parse(b"controlpath %d/x\n").control_path(), None);
        assert_eq!(
            Settings::parse(b"controlpath /a b/c\n").control_path(),
            Some(PathBuf::from("/a b/c"))
        );
        assert_eq!(Settings::parse(b"proxyjump j\n").by_way_of(), Some("j"));
    }
}
