"""Train a federation on one's own sensors without Snakemake, forecast the next day and plot it.

    python examples/own_sensors.py forecast.png

Readings are made up here; ``load_panel("readings.csv")`` takes a file with stamps in its first column instead.
"""

from __future__ import annotations

import sys
import tempfile

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from fedloom.library import load_panel, load_run, train
from fedloom.partition.panels import PanelPartitionSettings

# Sixty days of hourly counts of eight sensors: a daily rhythm of each one's own, weekends, noise, some gaps.
rng = np.random.default_rng(0)
stamps = pd.date_range("2024-01-01", periods=60 * 24, freq="h")
hour, weekend = stamps.hour.to_numpy(), stamps.day_of_week.to_numpy() >= 5
waves = {f"s{i}": np.sin(2 * np.pi * (hour - 3 * i) / 24) * np.where(weekend, 0.4, 1) for i in range(8)}
readings = 100 + 60 * pd.DataFrame(waves, index=stamps) + rng.normal(0, 6, (len(stamps), 8))
readings = readings.mask(rng.random(readings.shape) < 0.01)

# The last day is kept back; what comes before is split into training, validation and test by time.
known, last_day = readings.iloc[:-24], readings.iloc[-24:]
panel = load_panel(known, name="counts", unit="people")
results = tempfile.mkdtemp()
windows = PanelPartitionSettings(history=24, horizon=24)
for method in ("fedavg", "local"):
    train(
        panel, method, model={"encoder": "compact"}, protocol={"rounds": 8, "batch": 64},
        partition=windows, out=results,
    )  # fmt: skip

# Runs come back from their folders, those of a pipeline likewise.
figure, axes = plt.subplots(2, 1, sharex=True, figsize=(7, 4.5), layout="constrained")
for method in ("fedavg", "local"):
    forecast = load_run(f"{results}/runs/library/counts/{method}/base/seed0").forecast(known)
    error = (forecast - last_day).abs().mean().mean()
    print(f"{method}: mean absolute error of the day kept back {error:.1f} people")
    for ax, sensor in zip(axes, ("s0", "s4"), strict=True):
        ax.plot(forecast.index, forecast[sensor], label=method)
for ax, sensor in zip(axes, ("s0", "s4"), strict=True):
    ax.plot(last_day.index, last_day[sensor], color="black", linewidth=1, label="observed")
    ax.set_ylabel(f"{sensor} (people an hour)")
axes[0].legend()
axes[1].set_xlabel("hour of the day kept back")
axes[1].xaxis.set_major_formatter(plt.matplotlib.dates.DateFormatter("%H"))
figure.savefig(sys.argv[1], dpi=120)
