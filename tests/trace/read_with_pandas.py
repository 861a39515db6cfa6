# Reads a merged trace the way a user does: h5py, pandas, no code of pipefill. Exit 77: a package is not there.
import sys

try:
    import h5py
    import pandas
except ImportError as missing:
    print(missing)
    sys.exit(77)

with h5py.File(sys.argv[1], "r") as file:
    assert file.attrs["filetype"] in (b"pipefill-trace", "pipefill-trace"), file.attrs["filetype"]
    assert list(file.attrs["version"]) == [1, 0]
    assert "steps: 2" in str(file.attrs["config_yaml"])
    for name in ("software", "softwareVersion", "softwareDependencies", "date", "machine", "run_id", "build",
                 "t0_wall"):
        assert name in file.attrs, name
    assert sorted(file) == ["bubbles", "events", "fill_jobs", "ranks", "steps"], sorted(file)

    kinds = h5py.check_enum_dtype(file["events"].dtype["kind"])
    assert kinds["forward"] == 0 and "bubble_warm_up" in kinds, kinds
    for table in file.values():
        assert table.chunks and table.compression == "gzip" and table.compression_opts == 1
        assert table.shuffle and table.fletcher32 and table.maxshape == (None,)
        chunk = table.chunks[0] * table.dtype.itemsize
        assert 64 * 1024 <= chunk <= 1024 * 1024, (table.name, chunk)
        assert table.attrs["description"]
        for field in table.dtype.names:
            assert table.attrs[field + "_description"], (table.name, field)
            if table.dtype[field].kind in "if" and h5py.check_enum_dtype(table.dtype[field]) is None:
                assert table.attrs[field + "_units"], (table.name, field)
    assert file["events"].attrs["start_ns_units"] in (b"ns", "ns")
    assert file["events"].attrs["start_ns_unitSI"] == 1e-9

    events = pandas.DataFrame(file["events"][:])
    assert list(events.columns) == ["attempt", "kind", "rank", "step", "slot", "job", "fill_chunk", "stage",
                                    "model_chunk", "microbatch", "cost_class", "start_ns", "end_ns", "transfer_ns",
                                    "granted_ns", "bytes"]
    assert str(events.start_ns.dtype) == "int64" and str(events.microbatch.dtype) == "int16"
    assert all(file["events"].dtype[name].byteorder in "<=|" for name in file["events"].dtype.names)
    assert (events.groupby("rank").start_ns.diff().dropna() >= 0).all()
    assert events["rank"].is_monotonic_increasing
    names = {value: name for name, value in kinds.items()}
    bubble = events[events.kind.map(names) == "bubble_warm_up"]
    assert ((bubble.end_ns - bubble.start_ns) == 100).all() and len(bubble) == 3, bubble
    ranks = pandas.DataFrame(file["ranks"][:])
    assert len(ranks) == 5 and ranks.host[0] == b"node1"
    steps = pandas.DataFrame(file["steps"][:])
    assert len(steps) == 3 and (steps.filled == 1).all() and (steps.pair == 5).all()

    # What a job did in bubbles, from the events and as its row has it.
    jobs = pandas.DataFrame(file["fill_jobs"][:])
    assert len(jobs) == 1 and jobs.name[0] == b"letters" and jobs.configuration[0] == b"b4", jobs
    fill = events[events.kind.map(names) == "fill"].merge(jobs, on=["attempt", "job"])
    assert (fill.end_ns - fill.start_ns).sum() == jobs.fill_ns[0] == 180, jobs
    assert (fill.cost_class >= 0).sum() == jobs.done[0] == 3 and jobs.chunks[0] == 9
    bubbles = pandas.DataFrame(file["bubbles"][:])
    assert (bubbles.mean_filled_ns == 60).all() and (bubbles.mean_granted_ns == 0).all(), bubbles
