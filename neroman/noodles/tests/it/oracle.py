"""Answers what Training Noodles makes of specs: one JSON question a line, one JSON answer a line.

The original's own functions are called, one after the other as it calls them. What it raises is an
answer, too. Its logging of a spec as JSON is left out: that crashes on dates, and would hide how
they are read.
"""

import json
import logging
import os
import re
import sys
import tempfile

logging.disable(logging.CRITICAL)

from training_noodles import spec as specs  # noqa: E402
from training_noodles import string_utils  # noqa: E402
from training_noodles.commands_runner import CommandsRunner  # noqa: E402
from training_noodles.data_structure_utils import wrap_with_list  # noqa: E402
from training_noodles.runner import Runner  # noqa: E402

STAGES = ["before_all_experiments", "experiments", "after_all_experiments"]


def attempt(function):
    try:
        return {"is": function()}
    except BaseException as error:
        return {"error": "%s: %s" % (type(error).__name__, error)}


def literal(value):
    if value is None:
        return ["none"]
    if isinstance(value, bool):
        return ["bool", value]
    if isinstance(value, int):
        return ["number", float(value)]
    if isinstance(value, float):
        return ["number", repr(value) if value != value or value in (1e999, -1e999) else value]
    if isinstance(value, str):
        return ["text", value]
    return ["other"]


def load(text, only):
    with tempfile.NamedTemporaryFile("w", suffix=".yml", delete=False) as file:
        file.write(text)
    try:
        default = specs._read_spec(specs.default_spec_path)
        user = specs._read_spec(file.name)
        specs._fill_missing_with_defaults(default, user, specs.keys_to_copy)
        specs._fill_missing_in_stage_specs(user)
        specs._fill_missing_in_server_specs(user)
        specs._filter_experiments(user, only)
        return user
    finally:
        os.unlink(file.name)


def spec(question):
    user = load(question["text"], question["only"])
    runner = Runner.__new__(Runner)
    runner.command_type = question["type"]
    runner.user_spec = user
    runner.verbose = False
    runner.logger = Runner.__init__.__globals__["Logger"]("run")
    commands = CommandsRunner(user["shell_string"], user["shell_stdin"])

    def requirements(experiment):
        found = []
        for group in runner._get_experiment_details(experiment, "requirements"):
            if len(group) > 1:
                raise TypeError("object of type 'filter' has no len()")
            for key, expression in group.items():
                if not key.startswith(("static:", "dynamic:")):
                    string = string_utils.split_by_scheme(key, ["static", "dynamic"])
                    if not string[0]:
                        raise ValueError("Unknown scheme")
                else:
                    raise ValueError("Requirement ID does not exist: " + key)
                operator, value = runner._parse_requirement_expression(expression)
                found.append([key, operator, literal(value)])
        return found

    def scripts(own, experiment):
        server = {"hostname": "REMOTE", "username": None}
        grouped = commands._group_commands_by_endpoints(server, own)
        return [
            [
                not str(endpoint).startswith("ssh "),
                commands._build_inner_commands(inner, experiment["envs"]),
            ]
            for endpoint, inner in grouped
        ]

    def groups(experiment):
        return scripts(runner._get_experiment_details(experiment, "commands"), experiment)

    def probes(experiment):
        found = []
        for key, _, _ in requirements(experiment):
            own = user["requirements"].get(key)
            if own is not None:
                own = scripts(wrap_with_list(own), experiment)
            found.append([key, own])
        return found

    def dependencies(experiment):
        names = runner._get_experiment_details(experiment, "depends_on")
        for name in names:
            if not isinstance(name, str):
                raise TypeError("compared as it is")
        return names

    def env(experiment):
        for key in experiment["envs"]:
            if not isinstance(key, str):
                raise TypeError("str expected, not %s" % type(key).__name__)
        return [[key, str(value)] for key, value in experiment["envs"].items()]

    def name(experiment):
        if not isinstance(experiment["name"], str):
            raise TypeError("compared as it is")
        return experiment["name"]

    def output(experiment, key):
        path = runner._get_experiment_details(experiment, "write_outputs").get(key, None)
        return None if path is None else str(path)

    def server(one):
        if one.get("hostname") is None:
            raise ValueError("ssh to None")
        return [
            str(one["name"]),
            "{}".format(commands._build_endpoint_command(one)),
            runner._build_server_authority(one),
            str(one.get("port", "")),
        ]

    def seconds(key):
        number = user[key]
        if number > 0 and not number < 1e999:
            raise ValueError("sleeps for ever")
        return float(number)

    def status():
        path = runner._get_write_status_to_spec()
        return None if path is None else str(path)

    def experiment(one):
        return {
            "name": attempt(lambda: name(one)),
            "env": attempt(lambda: env(one)),
            "depends_on": attempt(lambda: dependencies(one)),
            "requirements": attempt(lambda: requirements(one)),
            "probes": attempt(lambda: probes(one)),
            "commands": attempt(lambda: groups(one)),
            "stdout_to": attempt(lambda: output(one, "stdout_to")),
            "stderr_to": attempt(lambda: output(one, "stderr_to")),
        }

    return {
        "stages": [attempt(lambda: [experiment(one) for one in user[stage]]) for stage in STAGES],
        "servers": [attempt(lambda: server(one)) for one in user["servers"]],
        "status": attempt(status),
        "round_interval": attempt(lambda: seconds("round_interval")),
        "deployment_interval": attempt(lambda: seconds("deployment_interval")),
        "commands_interval": attempt(lambda: seconds("commands_interval")),
        "check_any_errors": attempt(lambda: bool(user["check_any_errors"])),
        "shell_string": attempt(lambda: "{}".format(user["shell_string"])),
        "shell_stdin": attempt(lambda: "{}".format(user["shell_stdin"])),
        "handlers": attempt(lambda: len([one.get("action") for one in user["error_handlers"]])),
    }


def probe(question):
    runner = Runner.__new__(Runner)
    runner.logger = Runner.__init__.__globals__["Logger"]("run")
    metric = runner._try_calc_mean(question["stdout"])

    def satisfied(expression):
        operator, value = runner._parse_requirement_expression(expression)
        return bool(runner._is_metric_satisfied(metric, operator, value))

    answers = [attempt(lambda one=one: satisfied(one)) for one in question["expressions"]]
    return {"metric": literal(metric), "satisfied": answers}


def pattern(question):
    texts = question["texts"]
    return [re.fullmatch(question["pattern"], text) is not None for text in texts]


def handler(question):
    runner = Runner.__new__(Runner)
    runner.verbose = False
    runner.user_spec = load(question["text"], None)
    found = []
    real = runner.user_spec["error_handlers"]
    for code, stderr in question["errors"]:
        index = None
        for at, one in enumerate(real):
            runner.user_spec["error_handlers"] = [dict(one, action="matched")]
            _, action = runner._find_error_handler_match({"return_code": code, "stderr": stderr})
            if action == "matched":
                index = at
                break
        found.append(index)
    return found


class Ended(Exception):
    pass


def fnv(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def flow(question):
    """Runs the original's rounds; what commands answer follows from the seed."""
    events = []
    runner = Runner.__new__(Runner)
    runner.command_type = "run"
    runner.user_spec_path = ""
    runner.user_spec = load(question["text"], None)
    runner.verbose = False
    runner.running_response_commands = False
    runner.logger = Runner.__init__.__globals__["Logger"]("run")
    module = sys.modules[Runner.__module__]

    def roll(what, server, most):
        place = (question["seed"], STAGES.index(runner.stage), runner.round_idx, what, server)
        return fnv("%d/%d/%d/%s/%s" % place) % most

    def run_commands(server, commands, user_files={}, envs={}, handle_errors=True):
        name = server["name"]
        if "NOODLES_SERVER_NAME" not in envs:
            result = roll(commands, name, 3) if runner.round_idx < question["calm"] else 1
            return "success", "%d\n" % result, ""
        experiment = envs["NOODLES_EXPERIMENT_NAME"]
        number = roll(experiment, name, 9) if runner.round_idx < question["calm"] else 9
        outcome = {0: "retry", 1: "retry", 2: "continue", 3: question["third"]}.get(number, "success")
        events.append(["deploy", STAGES.index(runner.stage), runner.round_idx, experiment, name, outcome])
        if outcome == "abort":
            raise Ended()
        return outcome, "", ""

    def log_round():
        if runner.round_idx >= question["rounds"]:
            raise Ended()

    dependencies = runner._get_undeployed_experiment_dependencies

    def main_dependencies(*arguments):
        # In the other stages it looks names up in the main one, and fails where that is shorter.
        return dependencies(*arguments) if runner.stage == "experiments" else []

    runner._get_undeployed_experiment_dependencies = main_dependencies
    runner._run_commands = run_commands
    runner._evaluate_expression = lambda expr, envs={}: str(expr)
    runner._write_deployment_status = lambda filtered_deployed=set(): None
    runner._log_round = log_round
    finished = []
    runner.logger.info = lambda text: finished.append(text) if "Successfully" in str(text) else None
    sleep = module.time.sleep
    module.time.sleep = lambda seconds: events.append(["sleep", float(seconds)])
    try:
        runner.run()
    except Ended:
        pass
    finally:
        module.time.sleep = sleep
    return {"events": events, "finished": finished}


QUESTIONS = {"flow": flow, "spec": spec, "probe": probe, "pattern": pattern, "handler": handler}

for line in sys.stdin:
    question = json.loads(line)
    answer = attempt(lambda: QUESTIONS[question["ask"]](question))
    print(json.dumps(answer), flush=True)
