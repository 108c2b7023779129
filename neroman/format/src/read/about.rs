//! A line about each word of a block, for the schema, from which editors and the manual take it.

/// What a word is for; empty: it is unknown.
pub(crate) fn about(word: &str) -> &'static str {
    let lines = ABOUT.lines().filter_map(|line| line.split_once(' '));
    let mut found = lines.filter(|(known, _)| *known == word);
    found.next().map_or("", |(_, about)| about)
}

/// A word, and what it is for.
const ABOUT: &str = "
command What is executed; `{x}` is the place of the parameter x
run_command_prefix Words in front of `main_code_file` (original Neronet)
main_code_file The program of the experiment (original Neronet)
parameters Values by name; a list makes an experiment for each element
parameters_format Arguments behind the program (original Neronet)
parameter_format Old word for `parameters_format`
env Environment variables of the job; `$NAME` is expanded on the node
collection Name of the set that the experiments belong to
cohort Name of the peers that rules compare a run with
resources What a run needs of its node
files Files of the folder that travel to the node; all unless given
required_files Files that travel although they are ignored
outputs Files that come home after the run
rules Conditions that end a run, warn, or run a command
conditions Rules in the words of the original Neronet
warning Old word for `conditions`
metrics Where numbers are read from, beside the output
monitor How often the job is measured, and how it is ended
buffered true: leave the buffering of the output alone
line_buffered true: start the command under `stdbuf -oL`
results_dir The folder that results go to
results_max Most bytes that come home without `outputs`
custom_msg A remark that `show` prints (original Neronet)
sbatch_args Further options of `sbatch`
qsub_args Further options of `qsub`
partition Partition (SLURM)
account Account (SLURM), project (Grid Engine)
qos Quality of service (SLURM)
constraint Features of the hosts (SLURM)
queue Queue (Grid Engine)
parallel_env Parallel environment (Grid Engine)
launcher Program that starts the command on the hosts of the run
on_lost What follows when a scheduler loses a job that never began
setup Lines of bash before the run, as `module load cuda`
pack Runs that share one task of the scheduler
at_once Most tasks of one submission that run at the same time
logoutput Old word for `outputs` of a log (original Neronet)
output_line_processor Python functions that read lines of an output
output_file_processor Python functions that read a whole output
plot Python functions that draw a picture of outputs
node A node, a group, or any
requires Condition on the node, as `gpumem > 20G && load < 4`
data Paths of data that stay where they are, for all nodes or each
checkpoint Files that the next run goes on from
retry When a failed run is made again, and how often
on_timeout What follows when a run reached its time limit
split true: split the command after its places are filled
progress How much of the work is done, as `epoch / 50`
zip Parameters whose lists run together
exclude Combinations of parameters that are left out
repeat How often each combination is run
script Lines of bash in place of `command`
python Which Python: conda:NAME, venv:PATH, uv, system
container Image in which the command is executed
render Files that are made of templates before the start
parameters_style How parameters without a place reach the command
priority Runs with a higher number start first
parent A file whose fields hold below those of this one
keep How long the run's folder stays on the node
tags Words that `tag:NAME` selects by
depends_on Experiments that come first
stages Names of stages, one after another
stage The stage of these experiments
lock Only one run that has this name goes at a time
settle How long a node waits between starts of these runs
place Which node beside or apart from other experiments
probes Questions of your own to a node, for `requires`
on_error What follows errors of the program
steps Several scripts of one run, one after another
";

#[cfg(test)]
mod tests {
    use super::super::fields::FIELDS;

    #[test]
    fn each_field_is_described_in_one_line() {
        for (word, _) in FIELDS {
            assert!(!super::about(word).is_empty(), "{word}");
        }
        assert_eq!(super::ABOUT.trim().lines().count(), FIELDS.len());
    }
}
