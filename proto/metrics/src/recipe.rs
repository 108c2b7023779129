//! Patterns by name, for programs whose output no default reads whole:
//! `metrics: [vasp]` stands for the patterns of `vasp`.

/// Patterns of one program.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    /// The name in a file.
    pub name: &'static str,
    /// Patterns as under `match`.
    pub patterns: &'static [&'static str],
}

/// All recipes.
pub const RECIPES: &[Recipe] = &[
    Recipe {
        name: "cp2k",
        patterns: &[
            r"^(?<step>\d+) \S*(?:Diag|OT|DIIS|Broy|CG|SD)\S*(?: \S+)? .*\s(?<convergence>\d\S*) +(?<energy>-?\d+\.\d{6,}) +(?<change>\S+)$",
            r"^ENERGY\| Total FORCE_EVAL .*: +(?<total_energy>\S+)$",
        ],
    },
    Recipe {
        name: "gaussian",
        patterns: &[
            r"^SCF Done: +E\([^)]*\) += +(?<scf_energy>\S+) +A\.U\. after +(?<scf_cycles>\d+) cycles",
            r"^Maximum Force +(?<max_force>\S+) +\S+ +(?:YES|NO)",
            r"^RMS +Force +(?<rms_force>\S+) +\S+ +(?:YES|NO)",
            r"^Maximum Displacement +(?<max_displacement>\S+) +\S+ +(?:YES|NO)",
            r"^RMS +Displacement +(?<rms_displacement>\S+) +\S+ +(?:YES|NO)",
        ],
    },
    Recipe {
        name: "gromacs",
        patterns: &[r"^Performance: +(?<ns_per_day>\S+) +(?<hours_per_ns>\S+)"],
    },
    Recipe {
        name: "kaldi",
        patterns: &[
            r"verage objective function for '(?<name>[^']+)' (?:for minibatches \S+ )?is (?<value>\S+) over",
            r"^%WER (?<wer>\S+) \[",
        ],
    },
    Recipe {
        name: "namd",
        patterns: &[
            r"^ENERGY: +(?<step>\d+) +(?<bond>\S+) +(?<angle>\S+) +(?<dihed>\S+) +(?<imprp>\S+) +(?<elect>\S+) +(?<vdw>\S+) +(?<boundary>\S+) +(?<misc>\S+) +(?<kinetic>\S+) +(?<total>\S+) +(?<temp>\S+) +(?<potential>\S+)(?: +\S+ +\S+ +(?<pressure>\S+) +\S+ +(?<volume>\S+))?",
        ],
    },
    Recipe {
        name: "openfoam",
        patterns: &[
            r"Solving for (?<name>\w+), Initial residual = (?<value>[^, ]+),",
            r"^Courant Number mean: (?<courant_mean>\S+) max: (?<courant_max>\S+)",
            r"continuity errors : sum local = (?<continuity_local>[^, ]+), global = (?<continuity_global>[^, ]+), cumulative = (?<continuity_cumulative>\S+)",
            r"^ExecutionTime = (?<execution_time>\S+) s",
        ],
    },
    Recipe {
        name: "r-summary",
        patterns: &[
            r"^(?<name>[A-Za-z(.][^ ]*) +(?<value>-?[0-9][0-9.e+-]*) +[0-9][0-9.e+-]* +-?[0-9][0-9.e+-]* +<? ?[0-9][0-9.e+-]*(?: +(?:\*+|\.))?$",
            r"^Residual standard error: (?<residual_standard_error>\S+) on (?<degrees_of_freedom>\d+)",
            r"^Multiple R-squared: +(?<r_squared>[^, ]+),\s*Adjusted R-squared: +(?<adjusted_r_squared>\S+)",
            r"^F-statistic: +(?<f_statistic>\S+) on",
            r"^AIC: +(?<aic>\S+)",
        ],
    },
    Recipe {
        name: "vasp",
        patterns: &[
            r"^(?:DAV|RMM|CG|EIG|SDA|DMP): +(?<step>\d+) +(?<energy>\S+) +(?<energy_change>\S+)",
            r"^(?<step>\d+) (?:T= +(?<temperature>\S+) +E= +(?<total_energy>\S+) +)?F= +(?<free_energy>\S+) +E0= +(?<energy_0>\S+)",
        ],
    },
    Recipe {
        name: "yolo",
        patterns: &[
            r"^(?<step>\d+)/\d+ +(?<gpu_mem_gb>[0-9.]+)G +(?<box_loss>\S+) +(?<cls_loss>\S+) +(?<dfl_loss>\S+) +\d+ +\d+:",
            r"^all +\d+ +\d+ +(?<precision>\S+) +(?<recall>\S+) +(?<mAP50>\S+) +(?<mAP50_95>\S+)$",
        ],
    },
];

/// The patterns of a name.
pub fn patterns(name: &str) -> Option<&'static [&'static str]> {
    RECIPES
        .iter()
        .find(|recipe| recipe.name == name)
        .map(|recipe| recipe.patterns)
}
