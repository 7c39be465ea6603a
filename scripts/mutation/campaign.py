"""Random faults, one at a time, against the tests that reach them."""
import concurrent.futures
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time

from mutation import tree
from mutation.sample import LISTED, Known, Sample

# Tests that read the sources, which are not as they should be.
NOT_ASKED = {"structure", "docs"}
SKIPPED = "-*Slow.*:*Slow/*:*Gpu.*:*Gpu/*:*Net.*:*Net/*:*Fuzz.*:*Fuzz/*"
TEST_THREADS = 2  # of one test: several faults are tried at a time
ROUND_SECONDS = (2, 10, 60, 1e9)  # how long the tests of each round take; a fault goes on while none notices it
FOREIGN = 3  # tests of another component are worth waiting for after three times as many seconds of its own


def die(message):
    sys.exit(f"mutate: {message}")


def build(sample, name, refused):
    """The library first: its errors drop faults in headers, for which every test would be compiled again."""
    log = tree.WORK / f"{name}.build.log"
    tests = [f"test_{folder}" for folder in test_folders()]
    for targets in (["binade"], tests):
        tree.plant(sample.edited())
        print(f"building {len(sample.planted)} faults: {log.relative_to(tree.ROOT)}", flush=True)
        while not tree.build(log, *targets):
            blamed = sample.to_blame(log.read_text(errors="replace"))
            if not blamed:
                die(f"the build fails, and no fault is to blame: {log.relative_to(tree.ROOT)}")
            print(f"  {len({fault.number for fault in blamed})} do not compile", flush=True)
            sample.drop(blamed)
            refused.write_text(json.dumps(sorted(sample.refused)))
            tree.plant(sample.edited())


def test_folders():
    folders = {path.relative_to(tree.ROOT / "tests").parts[0] for path in (tree.ROOT / "tests").rglob("*_test.cpp")}
    return sorted(folders - NOT_ASKED)


def environment(number, **more):
    return dict(os.environ, BINADE_MUTANT=str(number), BINADE_THREADS=str(TEST_THREADS), OMP_WAIT_POLICY="passive",
                OMPI_MCA_rmaps_base_oversubscribe="1", **more)


class Coverage:
    """Which tests reach which places, how long each takes, and which fail anyway. Kept per executable."""

    def __init__(self, jobs):
        self.seconds, self.reached, self.broken = {}, {}, set()
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for name, record in pool.map(lambda name: (name, self.read(name)), test_folders()):
                self.add(name, record)

    def read(self, name):
        program = tree.BUILD / f"test_{name}"
        stat = program.stat()
        kept = tree.WORK / "coverage" / f"{name}.{stat.st_mtime_ns}.{stat.st_size}"
        if not kept.exists():
            kept.parent.mkdir(parents=True, exist_ok=True)
            for old in kept.parent.glob(f"{name}.*"):
                old.unlink()
            fresh = kept.with_suffix(".new")
            began = time.monotonic()
            subprocess.run([program, "--gtest_brief=1", f"--gtest_filter={SKIPPED}"], cwd=tree.TREE,
                           env=environment(-1, BINADE_MUTANT_REACHED=str(fresh)), capture_output=True, timeout=3600)
            fresh.touch()
            fresh.rename(kept)
            print(f"coverage of test_{name}: {time.monotonic() - began:.0f} s", flush=True)
        return kept.read_text()

    def add(self, name, record):
        for line in record.splitlines():
            fields = line.split("\t")
            if fields[0] == "ended" and len(fields) == 4:
                self.seconds[name, fields[1]] = int(fields[2]) / 1000
                if fields[3] == "failed":
                    self.broken.add((name, fields[1]))
            elif fields[0] == "reached" and len(fields) == 3 and fields[1]:
                self.reached.setdefault(int(fields[2]), set()).add((name, fields[1]))

    def time_of(self, test):
        name, case = test
        if case.endswith(".*"):  # what a fixture does for all its tests
            return sum(s for (other, c), s in self.seconds.items() if other == name and c.startswith(case[:-1]))
        return self.seconds.get(test, 0)

    def rounds(self, fault, seconds):
        """The tests that reach a fault, the quickest first, in rounds of growing length. Then the others of their
        executables: what is computed once for a process was noted for the first test alone that needed it. Tests
        that do not fit into `seconds` are left out."""
        own = fault.component()
        cost = lambda test: (self.time_of(test) + 0.01) * (1 if test[0] == own else FOREIGN)
        reaching = self.reached.get(fault.number, set()) - self.broken
        names = {name for name, _ in reaching}
        rest = {test for test in self.seconds if test[0] in names} - self.broken - reaching
        total, parts = 0.0, {}
        for test in sorted(reaching, key=cost) + sorted(rest, key=cost):
            if parts and total + self.time_of(test) > seconds:
                continue
            total += self.time_of(test)
            part = next(i for i, limit in enumerate(ROUND_SECONDS) if total <= limit)
            parts.setdefault((test in rest, part), []).append(test)
        return list(parts.values())


class Runner:
    def __init__(self, coverage, seconds):
        self.coverage, self.seconds = coverage, seconds

    def run(self, name, cases, number, memory):
        """The first of these tests that fails, or a word about how the executable ended; None if all pass."""
        expected = sum(self.coverage.time_of((name, case)) for case in cases)
        command = [tree.BUILD / f"test_{name}", "--gtest_brief=1", "--gtest_fail_fast",
                   f"--gtest_filter={':'.join(cases)}"]
        process = subprocess.Popen(command, cwd=tree.TREE, env=environment(number, **memory), stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            output = process.communicate(timeout=30 + 10 * expected)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return "(hangs)"
        if process.returncode == 0:
            return None
        failed = re.search(r"\[  FAILED  \] ([\w/]+\.[\w/]+)", output)
        return failed.group(1) if failed else f"(exit {process.returncode})"

    def killer_among(self, tests, fault, memory):
        by_name = {}
        for name, case in tests:
            by_name.setdefault(name, []).append(case)
        for name in sorted(by_name, key=lambda name: sum(self.coverage.time_of((name, c)) for c in by_name[name])):
            cases = by_name[name]
            while cases and (failed := self.run(name, cases, fault.number, memory)):
                # A test that also fails without the fault says nothing.
                if failed not in cases or self.run(name, [failed], 0, memory) is None:
                    return f"{name} {failed}"
                cases = [case for case in cases if case != failed]
        return None

    def killer(self, fault):
        """The test that notices a fault, or None. Those that read or write past the end of memory are left to the
        poison preset, which is asked last."""
        for memory in ({}, {"BINADE_POISON": "guard"}):
            for tests in self.coverage.rounds(fault, self.seconds):
                if killer := self.killer_among(tests, fault, memory):
                    return killer + (" (poison)" if memory else "")
        return None

    def judge(self, fault):
        began = time.monotonic()
        reached = len(self.coverage.reached.get(fault.number, ()))
        killer = self.killer(fault)
        return {"killer": killer, "reached": reached, "seconds": round(time.monotonic() - began, 2)}


def read_results(path):
    results = {}
    if path.exists():
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            results[tuple(entry["key"])] = entry
    return results


def run(count, seed, jobs, seconds, again, listed):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it, and tests send it
    known = Known()
    name = f"random-{count}-{seed}"
    tree.WORK.mkdir(parents=True, exist_ok=True)
    sample = Sample(count, seed, known, listed)
    refused = tree.WORK / f"{name}.refused.json"
    sample.forget(json.loads(refused.read_text()) if refused.exists() else [])
    build(sample, name, refused)
    coverage = Coverage(jobs)
    for test in sorted(coverage.broken):
        print(f"left out, fails without a fault: {test[0]} {test[1]}", flush=True)
    path = tree.WORK / f"{name}.jsonl"
    results = read_results(path)
    faults = sample.selected(coverage.reached)
    waiting = [f for f in faults if f.key() not in results or again and results[f.key()]["killer"] is None]
    waiting.sort(key=lambda fault: known.reason(fault.place) is not None)  # what is known takes longest
    runner = Runner(coverage, seconds)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool, open(path, "a") as out:
        running = {pool.submit(runner.judge, fault): fault for fault in waiting}
        for index, done in enumerate(concurrent.futures.as_completed(running), 1):
            fault = running[done]
            entry = {"key": fault.key(), "component": fault.component(), "line": fault.place.line} | done.result()
            results[fault.key()] = entry
            out.write(json.dumps(entry) + "\n")
            out.flush()
            state = entry["killer"] or ("SURVIVED" if entry["reached"] else "SURVIVED, reached by no test")
            print(f"{index}/{len(waiting)} {fault.where()} [{fault.place.rule}] {fault.change()}: {state} "
                  f"({entry['seconds']} s)", flush=True)
    for fault in faults:
        if fault.place.rule == LISTED and not results[fault.key()]["killer"]:
            print(f"of the lists, survived: {fault.where()} {fault.change()}", flush=True)
    return report([fault for fault in faults if fault.place.rule != LISTED], results, known)


def report(faults, results, known):
    entries = [(fault, results[fault.key()]) for fault in faults]
    killed = [fault for fault, entry in entries if entry["killer"]]
    survived = [fault for fault, entry in entries if not entry["killer"]]
    equivalent = [fault for fault in survived if known.reason(fault.place)]
    real = [fault for fault in survived if not known.reason(fault.place)]
    print(f"\n{'component':10} faults killed equivalent survived")
    for component in sorted({fault.component() for fault in faults}):
        counts = [sum(1 for fault in group if fault.component() == component)
                  for group in (faults, killed, equivalent, real)]
        print("{:10} {:6} {:6} {:10} {:8}".format(component, *counts))
    seconds = statistics.median(entry["seconds"] for _, entry in entries)
    noticed = len(killed) + len(equivalent)
    print(f"\n{len(faults)} faults: {len(killed)} killed, {len(equivalent)} equivalent, {len(real)} survived; "
          f"{100 * noticed / len(faults):.1f}% killed or equivalent; median {seconds:.1f} s per fault")
    for fault in equivalent:
        print(f"  equivalent: {fault.where()} [{fault.place.rule}] {fault.change()}\n"
              f"              {known.reason(fault.place)}")
    for fault in real:
        print(f"  survived:   {fault.where()} [{fault.place.rule}] {fault.change()}"
              + ("" if results[fault.key()]["reached"] else "\n              no test reaches it"))
    for fault in killed:
        if known.reason(fault.place):
            print(f"  killed, though listed as equivalent: {fault.where()} {fault.change()}")
    return 0 if 10 * noticed >= 9 * len(faults) else 1
