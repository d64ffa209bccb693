"""Still charts of a Trace, as Plotly figures."""

from __future__ import annotations

import plotly.graph_objects as go

from mtviz.trace import Trace, counts

HEADS, TRUNK, ACCEPTED = "#E69F00", "#0072B2", "#009E73"  # Okabe and Ito's colours: told apart without colour vision


def acceptance_by_position(trace: Trace) -> go.Figure:
    """Bars of conditional acceptance (accepted at i / judged at i) and a line of survival by draft position."""
    counted = counts(trace)
    conditional, survival = counted["conditional_acceptance"], counted["survival"]
    offsets = [f"+{i + 2}" for i in range(len(survival))]
    figure = go.Figure()
    figure.add_bar(
        x=offsets, y=conditional, name="accepted / judged here", marker_color=ACCEPTED, marker_pattern_shape="",
        hovertemplate="%{x}: %{y:.1%} of those judged here<extra></extra>",
    )
    figure.add_scatter(
        x=offsets, y=survival, name="reached and accepted / drafted", mode="lines+markers", line={"color": TRUNK, "width": 3},
        hovertemplate="%{x}: %{y:.1%} of all rounds that drafted it<extra></extra>",
    )
    figure.update_layout(
        title="Acceptance by position in the proposal",
        xaxis={"title": "offset of the head", "type": "category"},
        yaxis={"title": "share", "range": [0, 1.05], "tickformat": ".0%"},
        height=300, margin={"l": 60, "r": 20, "t": 50, "b": 50}, legend={"orientation": "h", "y": -0.3},
        paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", font={"color": "#888"},
    )
    if not offsets:
        figure.add_annotation(text="no token was drafted in this run", showarrow=False, xref="paper", yref="paper", x=0.5, y=0.5)
    return figure
