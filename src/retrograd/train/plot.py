"""The loss curve of a run as SVG."""

# matplotlib annotates its keyword arguments only in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Sequence
from pathlib import Path

Curve = Sequence[tuple[int, float]]
"""(step, loss in nats per supervised token) pairs."""


def draw_losses(path: Path, *, title: str, train: Curve, held_out: Curve) -> Path:
    """Draw training and held-out loss over steps.

    Args:
        path: SVG file to write.
        title: of the figure.
        train: loss of each step.
        held_out: loss of each evaluation; may be empty.
    """
    # Here, not above: matplotlib takes a second to import.
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    # Text stays text, and equal curves give equal bytes.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "retrograd"}):
        figure = Figure(figsize=(7.0, 4.0), layout="constrained")
        axes = figure.add_subplot()
        if train:
            axes.plot(
                *zip(*train, strict=True), color="#9db4c9", linewidth=1.0, label="training step"
            )
            smooth = _smoothed(train)
            axes.plot(
                *zip(*smooth, strict=True),
                color="#1f4e79",
                linewidth=1.8,
                label="training, smoothed",
            )
        if held_out:
            axes.plot(
                *zip(*held_out, strict=True),
                color="#c1440e",
                marker="o",
                markersize=4.0,
                linewidth=1.2,
                label="held out",
            )
        axes.set_xlabel("step")
        axes.set_ylabel("loss (nats per supervised token)")
        axes.set_title(title)
        axes.set_ylim(bottom=0.0)
        axes.grid(visible=True, color="#e4e4e4", linewidth=0.6)
        if train or held_out:
            axes.legend(frameon=False)
        FigureCanvasSVG(figure).print_svg(str(path), metadata={"Date": None, "Title": title})
    return path


def _smoothed(curve: Curve, weight: float = 0.9) -> list[tuple[int, float]]:
    """Exponential moving average, corrected for its start: s_t / (1 - w^t)."""
    total, scale, out = 0.0, 0.0, list[tuple[int, float]]()
    for step, loss in curve:
        total = weight * total + (1.0 - weight) * loss
        scale = weight * scale + (1.0 - weight)
        out.append((step, total / scale))
    return out
