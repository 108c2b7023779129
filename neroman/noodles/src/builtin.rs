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
        &[
            "nvidia-smi --query-gpu=utilization.gpu --format=csv,noheader,nounits | awk '{s+=$1; n++} END {print s/100/n}'",
        ],
    ),
    (
        "cuda_memory_usage",
        &[
            "nvidia-smi --query-gpu=memory.used,memory.total --format=csv,noheader,nounits | awk '{p=$1/$2; s+=p; n++} END {print s/n}'",
        ],
    ),
];

/// The commands of a probe.
pub fn commands(id: &str) -> Option<&'static [&'static str]> {
    let probe = PROBES.iter().find(|(known, _)| *known == id);
    probe.map(|(_, commands)| *commands)
}
