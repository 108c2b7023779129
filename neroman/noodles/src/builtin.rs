//! The probes that every spec has unless it defines them itself.

const CPU_USAGE: &str = "(grep 'cpu ' /proc/stat;sleep 0.1;grep 'cpu ' /proc/stat) | awk -v RS='' '{print ($13-$2+$15-$4)/($13-$2+$15-$4+$16-$5)}'";

/// Ids and commands.
pub const PROBES: &[(&str, &[&str])] = &[
    (
        "cpu_usage",
        &[CPU_USAGE, "sleep 1.5", CPU_USAGE, "sleep 1.5", CPU_USAGE],
    ),
    ("cpu_load", &["awk '{print $1}' /proc/loadavg"]),
    (
        "memory_usage",
        &["awk '/MemTotal/{t=$2}/MemAvailable/{a=$2}END{print 1-a/t}' /proc/meminfo"],
    ),
    (
        "disk_usage",
        &["df | awk '/ \\/$/{print substr($5, 1, length($5)-1)/100}'"],
    ),
    (
        "cuda_gpu_utilization",
        &[concat!(
            "nvidia-smi --query-gpu=utilization.gpu --format=csv,noheader,nounits 2>/dev/null | ",
            "awk '/^[0-9]/ {s+=$1; n++; next} {said=\": \"$0} END {if (n) print s/100/n; else print \"no GPU\" said}'",
        )],
    ),
    (
        "cuda_memory_usage",
        &[concat!(
            "nvidia-smi --query-gpu=memory.used,memory.total --format=csv,noheader,nounits 2>/dev/null | ",
            "awk '/^[0-9]/ {s+=$1/$2; n++; next} {said=\": \"$0} END {if (n) print s/n; else print \"no GPU\" said}'",
        )],
    ),
];

/// The commands of a probe.
pub fn commands(id: &str) -> Option<&'static [&'static str]> {
    let probe = PROBES.iter().find(|(known, _)| *known == id);
    probe.map(|(_, commands)| *commands)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// What a probe prints where `nvidia-smi` does this.
    fn printed(id: &str, nvidia_smi: &str) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        if !nvidia_smi.is_empty() {
            let program = folder.path().join("nvidia-smi");
            std::fs::write(&program, format!("#!/bin/sh\n{nvidia_smi}\n")).expect("a file");
            let mode = std::fs::Permissions::from_mode(0o700);
            std::fs::set_permissions(&program, mode).expect("a program");
        }
        let path = format!("{}:/usr/bin:/bin", folder.path().display());
        let commands = commands(id).expect("a built-in probe");
        let mut shell = std::process::Command::new("/bin/bash");
        let ended = shell.args(["-c", commands[0]]).env("PATH", path).output();
        let ended = ended.expect("it runs");
        assert!(
            ended.status.success() && ended.stderr.is_empty(),
            "{ended:?}"
        );
        String::from_utf8(ended.stdout).expect("text")
    }

    #[test]
    fn cards_are_averaged_and_none_is_said() {
        let cases = [
            (
                "cuda_gpu_utilization",
                "echo 20; echo '[N/A]'; echo 40",
                "0.3\n",
            ),
            ("cuda_memory_usage", "echo 10, 100; echo 30, 100", "0.2\n"),
            (
                "cuda_memory_usage",
                "echo No devices were found; exit 6",
                "no GPU: No devices were found\n",
            ),
            ("cuda_gpu_utilization", "exit 9", "no GPU\n"),
        ];
        for (id, nvidia_smi, expected) in cases {
            assert_eq!(printed(id, nvidia_smi), expected, "{id}: {nvidia_smi}");
        }
        if !std::path::Path::new("/usr/bin/nvidia-smi").exists() {
            assert_eq!(printed("cuda_gpu_utilization", ""), "no GPU\n");
        }
    }
}
