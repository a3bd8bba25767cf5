# SPDX-License-Identifier: BSD-2-Clause
"""small: pretty printers and the command small-stats for gdb.

Reads memory only, so it works on a core file. Installed where gdb loads it
with the library; otherwise: source small/gdb/small-gdb.py
"""

import gdb
import gdb.printing

LIST_MAX = 100000  # a broken list ends here instead of never
UNIT = 1024  # of a quota, in bytes


def num(value, *path):
    """value.a.b as an int."""
    for name in path:
        value = value[name]
    return int(value)


def ring(head):
    """The elements of an rlist, as pointers, the head left out."""
    end = head.address
    item = head["next"]
    for _ in range(LIST_MAX):
        if item == end or int(item) == 0:
            return
        yield item
        item = item.dereference()["next"]


def ring_length(head):
    return sum(1 for _ in ring(head))


def entry(item, type_name, member):
    """The struct that the link `item` is the field `member` of."""
    kind = gdb.lookup_type("struct " + type_name)
    offset = next(f.bitpos // 8 for f in kind.fields() if f.name == member)
    address = int(item) - offset
    return gdb.Value(address).cast(kind.pointer()).dereference()


def has(value, name):
    return any(f.name == name for f in value.type.strip_typedefs().fields())


def quota(q):
    total = num(q, "total") * UNIT
    return [
        ("used", total - num(q, "free") * UNIT),
        ("total", total),
        ("refusals", num(q, "refusals")),
        ("lessors", ring_length(q["lessors"])),
        ("reclaimers", ring_length(q["reclaimers"])),
    ]


def quota_lessor(l):
    return [(f.name, int(l[f.name])) for f in l.type.fields()
            if f.name in ("used", "leased")]


def slab_arena(a):
    return [(name, num(a, name)) for name in
            ("used", "idle", "large", "retain", "prealloc", "slab_size")]


def pile_length(item):
    """Links from `item` on, up to NULL."""
    for count in range(LIST_MAX):
        if int(item) == 0:
            return count
        item = item.dereference()["next"]
    return LIST_MAX


def slab_cache(c):
    used = num(c, "allocated", "stats", "used")
    mapped = num(c, "allocated", "stats", "total")
    overhead = num(c, "overhead")
    low, high = c["spare"].type.range()
    spares = [pile_length(c["spare"][i]) for i in range(low, high + 1)]
    spare = sum(n << (i + 1) for i, n in enumerate(spares))
    garbage = num(c, "out") - used - spare
    return [
        ("used", used),
        ("free", mapped - used - garbage),
        ("garbage", garbage),
        ("overhead", overhead),
        ("total", mapped + overhead),
        ("spares", sum(spares)),
        ("large", ring_length(c["large"])),
    ]


def chain_length(first, tail):
    """Links from the pointer `first` on, up to the one that `tail` is at."""
    place = first
    for count in range(LIST_MAX):
        if place.address == tail or int(place) == 0:
            return count
        place = place.dereference()["next"]
    return LIST_MAX


def region(r):
    at = r["at"]
    used = (int(at["pos"]) - num(at, "base")) % 2 ** (8 * at["pos"].type.sizeof)
    return [
        ("used", used),
        ("total", num(r, "kept_total") + num(at, "rest_total")),
        ("retain", num(r, "retain")),
        ("kept_slabs", ring_length(r["kept"])),
        ("rest_slabs", chain_length(r["rest"], at["rest_tail"])),
        ("generation", num(r, "generation")),
    ]


def mempool(m):
    """As mempool_stats(); what was freed in the current slab is counted."""
    live = num(m, "live")
    current = m["current"]
    if int(current) != 0:
        left = current["left"]
        freed = 2 ** (8 * left.type.sizeof - 1) - 1 - int(left)
        word = current["free"][0].address
        free = sum(bin(int(word[i])).count("1")
                   for i in range(num(m, "words")))
        live += num(m, "current_free") + freed - free
    total = num(m, "slabs", "stats", "total")
    return [
        ("objects", live),
        ("objsize", num(m, "objsize")),
        ("used", live * num(m, "objsize")),
        ("total", total),
        ("slabs", ring_length(m["slabs"]["slabs"])),
        ("cold_slabs", ring_length(m["cold"])),
        ("slab_objects", num(m, "objcount")),
    ]


def freelist(f):
    shift = num(f, "shift")
    return [
        ("used", num(f, "peak") - num(f, "peak_room")),
        ("peak", num(f, "peak")),
        ("limit", num(f, "limit")),
        ("committed", (num(f, "end") << shift) + num(f, "head")),
        ("granule", 1 << shift),
        ("refused", num(f, "refused")),
    ]


def luamem(m):
    return [
        ("used", num(m, "line") - num(m, "room")),
        ("peak", max(num(m, "peak"), num(m, "line") - num(m, "room"))),
        ("limit", num(m, "limit")),
        ("taken", num(m, "taken")),
        ("refused", num(m, "refused")),
        ("recovered", num(m, "recovered")),
    ]


def sandbox(s):
    return [
        ("calls", num(s, "run", "count") - num(s, "uncounted")),
        ("active", num(s, "active")),
        ("verdict", num(s, "verdict")),
        ("timeout_ns", num(s, "timeout_ns")),
        ("instructions", num(s, "instructions")),
    ]


# What small-stats shows, in this order of layers: the function that counts
# and the field that leads one layer down.
LAYERS = {
    "quota": (quota, None),
    "quota_lessor": (quota_lessor, "source"),
    "slab_arena": (slab_arena, "quota"),
    "slab_cache": (slab_cache, "arena"),
    "region": (region, "cache"),
    "mempool": (mempool, "cache"),
    "freelist": (freelist, "region"),
    "luamem": (luamem, "heap"),
    "sandbox": (sandbox, "mem"),
}


def layer(value):
    """The struct behind value and its name, or None. A heap of malloc has no
    freelist, a freelist in a buffer no region: there the layers end."""
    if value.type.strip_typedefs().code == gdb.TYPE_CODE_PTR:
        if int(value) == 0:
            return None
        value = value.dereference()
    name = value.type.strip_typedefs().tag
    return (name, value) if name in LAYERS else None


class Printer:
    """One line: the struct's name and its counts."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        name, value = layer(self.value)
        counts = " ".join("%s=%d" % pair for pair in LAYERS[name][0](value))
        return "%s {%s}" % (name, counts)


class Stats(gdb.Command):
    """small-stats EXPRESSION

The counts of a quota, slab_arena, slab_cache, region, mempool, freelist,
luamem or sandbox, and of each layer below it. Bytes, unless the name says
otherwise."""

    def __init__(self):
        super().__init__("small-stats", gdb.COMMAND_DATA,
                         gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        found = layer(gdb.parse_and_eval(argument))
        if found is None:
            raise gdb.GdbError("small-stats: not a struct of small, or NULL")
        while found is not None:
            name, value = found
            count, below = LAYERS[name]
            print("%s 0x%x" % (name, int(value.address)))
            for pair in count(value):
                print("  %-12s %d" % pair)
            found = layer(value[below]) if below else None


def printers():
    collection = gdb.printing.RegexpCollectionPrettyPrinter("small")
    for name in LAYERS:
        collection.add_printer(name, "^%s$" % name, Printer)
    return collection


gdb.printing.register_pretty_printer(gdb.current_objfile(), printers(),
                                     replace=True)
Stats()
