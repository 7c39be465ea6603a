"""Random faults: which ones, what is known of them, and the sources that hold them."""
import hashlib
import re
import tomllib
from dataclasses import dataclass, field

from mutation import rules, tree

# GPU kernels and benchmarks are left out.
LEFT_OUT = ("backend/cuda/", "bench/")
KNOWN = tree.ROOT / "tests" / "mutants" / "random" / "known.toml"
LISTED = "listed"  # in place of a rule: of the lists of tests/mutants
MARGIN = 1.5  # places chosen for each fault that is asked for: some do not compile


@dataclass
class Fault:
    number: int
    place: rules.Place
    reached: dict = field(default_factory=dict)  # tests, by executable

    def key(self):
        place = self.place
        same = (place.file, place.rule, place.text, place.before, place.after)
        return same if place.occurrence == 0 else (*same, place.occurrence)

    def component(self):
        return component_of(self.place.file)

    def where(self):
        return f"src/binade/{self.place.file}:{self.place.line}"

    def change(self):
        return f"{self.place.before}  ->  {self.place.after or '(nothing)'}"


class Known:
    """Faults that no test can see, each with the reason; and files that cannot run here."""

    def __init__(self):
        tables = tomllib.loads(KNOWN.read_text())
        self.left_out = {entry["file"]: entry["reason"] for entry in tables.get("left_out", [])}
        self.equivalent = tables.get("equivalent", [])

    def reason(self, place):
        for entry in self.equivalent:
            if (entry["file"] == place.file and entry["rule"] == place.rule and entry["line"] == place.text
                    and entry.get("after", place.after) == place.after):
                return entry["reason"]
        return None

    def stale(self):
        """Entries whose line no source holds any more."""
        for entry in self.equivalent:
            path = tree.ROOT / "src" / "binade" / entry["file"]
            lines = path.read_text().splitlines() if path.exists() else []
            if entry["line"] not in (line.strip() for line in lines) or entry["rule"] not in rules.RULES:
                yield entry
        for file in self.left_out:
            if not (tree.ROOT / "src" / "binade" / file).exists():
                yield {"file": file, "line": "(the file)"}


def sources(known):
    """Text of each file that may hold a fault, by its name below src/binade."""
    files = {}
    for name in sorted(tree.source_files()):
        if not name.startswith("src/binade/") or not name.endswith((".cpp", ".h")):
            continue
        file = name.removeprefix("src/binade/")
        if not file.startswith(LEFT_OUT) and file not in known.left_out:
            files[file] = (tree.ROOT / name).read_text()
    return files


def component_of(file):
    """The headers outside of components are the public interface, which tests/c looks at."""
    return file.split("/")[0] if "/" in file else "c"


def quotas(files, count):
    """How many faults each component gets, by its lines of code."""
    lines = {}
    for file, text in files.items():
        count_of_file = sum(1 for line in text.splitlines() if line.strip())
        lines[component_of(file)] = lines.get(component_of(file), 0) + count_of_file
    total = sum(lines.values())
    exact = {component: count * n / total for component, n in lines.items()}
    quota = {component: int(x) for component, x in exact.items()}
    for component in sorted(exact, key=lambda c: quota[c] - exact[c])[:count - sum(quota.values())]:
        quota[component] += 1
    return quota


def rank(seed, place):
    """A number that orders places at random, the same whatever else changes in the sources."""
    text = "\0".join((str(seed), place.file, place.rule, place.text, place.before, place.after,
                      *[str(place.occurrence)] * (place.occurrence > 0)))
    return hashlib.sha256(text.encode()).digest()


def draw(files, seed):
    """Per component, all its places in random order: each rule in turn, so that rare ones are tried as well."""
    by_component = {}
    for file, text in files.items():
        by_component.setdefault(component_of(file), []).extend(rules.places(file, text))
    for component, places in by_component.items():
        by_rule = {rule: [] for rule in rules.RULES}
        for place in places:
            by_rule[place.rule].append(place)
        turns = []
        for rule, members in by_rule.items():
            members.sort(key=lambda place: rank(seed, place))
            turns += [(turn, rank(seed, place)[:4], place) for turn, place in enumerate(members)]
        turns.sort(key=lambda entry: entry[:2])
        by_component[component] = [place for _, _, place in turns]
    return by_component


def overlaps(place, others):
    begin, end = place.span()
    return any(begin < b and a < end for a, b in others)


class Sample:
    """`count` faults that compile, found by planting some more and dropping those the compiler refuses."""

    def __init__(self, count, seed, known, listed=()):
        self.files = sources(known)
        self.quota = quotas(self.files, count)
        self.drawn = draw(self.files, seed)
        self.next = {component: 0 for component in self.drawn}
        # Those of the lists, if any, are in addition to `count`.
        self.planted = [Fault(number, place) for number, place in enumerate(listed, 1)]
        self.refused, self.number = set(), len(self.planted)
        for component, quota in self.quota.items():
            self.add(component, int(quota * MARGIN) + 1)

    def add(self, component, wanted):
        places = self.drawn.get(component, [])
        while wanted > 0 and self.next[component] < len(places):
            place = places[self.next[component]]
            self.next[component] += 1
            taken = [fault.place.span() for fault in self.planted if fault.place.file == place.file]
            if overlaps(place, taken):
                continue
            self.number += 1
            self.planted.append(Fault(self.number, place))
            wanted -= 1

    def forget(self, keys):
        """Drops faults that an earlier build refused."""
        keys = {tuple(key) for key in keys}
        while faults := [fault for fault in self.planted if fault.key() in keys]:
            self.drop(faults)

    def drop(self, faults):
        """Takes faults out; where a component has too few left, others take their turn."""
        dropped = {fault.number for fault in faults}
        self.refused |= {fault.key() for fault in faults}
        self.planted = [fault for fault in self.planted if fault.number not in dropped]
        for component, quota in self.quota.items():
            left = len(self.drawn_of(component))
            if left < quota:
                self.add(component, int((quota - left) * MARGIN) + 1)

    def drawn_of(self, component):
        return [fault for fault in self.planted if fault.component() == component and fault.place.rule != LISTED]

    def selected(self, reached):
        """The faults to try. One in a header that nothing reaches may stand in a constant expression, where it is
        never active: another takes its turn."""
        chosen = [fault for fault in self.planted if fault.place.rule == LISTED]
        for component, quota in self.quota.items():
            chosen += [fault for fault in self.drawn_of(component)
                       if fault.number in reached or not fault.place.file.endswith(".h")][:quota]
        return chosen

    def edited(self):
        texts = {}
        for file, text in self.files.items():
            pieces = [(begin, end, planted.replace("{k}", str(fault.number))) for fault in self.planted
                      if fault.place.file == file for begin, end, planted in fault.place.pieces]
            if not pieces:
                continue
            for begin, end, planted in sorted(pieces, reverse=True):
                if file.endswith(".h"):
                    planted = planted.replace("::binade::fault(", "::binade::header_fault(")
                text = text[:begin] + planted + text[end:]
            texts["src/binade/" + file] = text
        return texts

    def to_blame(self, log):
        """The planted faults that the compiler's errors are about."""
        blamed, files = [], {}
        for fault in self.planted:
            files.setdefault(fault.place.file, []).append(fault)
        for error, notes in errors_of(log):
            here = []
            for file, line in [error] + notes:
                here = here or [fault for fault in files.get(file, []) if self.covers(fault, line)]
            blamed += here or files.get(error[0], [])  # an error elsewhere, for which the whole file is to blame
        return blamed

    def covers(self, fault, line):
        begin, end = fault.place.span()
        text = self.files[fault.place.file]
        first = text.count("\n", 0, begin) + 1
        return first <= line <= first + text.count("\n", begin, end)


def errors_of(log):
    """Per error of a compiler's log its (file below src/binade, line), and those that its notes name. An error in a
    header of a library is where the last line before it says that it is required from."""
    named = re.compile(r"^(?:\S*/)?src/binade/([\w./-]+):(\d+):(?:\d+:)? *(.*)")
    errors, required = [], []
    for text in log.splitlines():
        match = named.match(text)
        at = (match.group(1), int(match.group(2)) - 1) if match else None  # less the line of the guard's #include
        if re.search(r": (fatal )?error: ", text):
            places = [at] if at else required[::-1]
            if places:
                errors.append((places[0], places[1:]))
            required = []
        elif at and "required from" in text:
            required.append(at)
        elif at and errors:
            errors[-1][1].append(at)
    return errors
