"""More than one machine, by Ray Serve: the page on one ingress replica, the model in a deployment that scales by itself.

The hall stays with the page, so that equal requests are computed once whatever the number of model replicas. Each replica
decodes one run at a time, unbatched: runs that share passes are rounded otherwise, and a link would no longer give the same
tokens. `ray` is imported when it is asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, AsyncGenerator, Callable

from mtviz.hosting.device import Device
from mtviz.hosting.hall import Hall
from mtviz.hosting.limits import Limits
from mtviz.service import NoModel, Service, Status
from mtviz.settings import Settings

NAME = "mtviz"
ROOT = Path(__file__).resolve().parents[2]
MISSING = "Ray Serve is not installed; `pip install -r requirements-ray.txt` does that."


class Front(Service):
    """What the page needs where the model is elsewhere: presets, recorded traces, and the number of replicas."""

    def __init__(self, replicas: int):
        super().__init__()
        self._replicas = replicas

    def status(self) -> Status:
        return {"live": True, "loading": False, "text": f"Ray Serve · up to {self._replicas} replicas"}

    def identity(self, settings: Settings) -> tuple[()]:
        return ()  # all replicas have the same weights for as long as this front lives

    def load(self) -> Any:
        raise NoModel("The model is on other machines here, and only decoding reaches them.")


class Model:
    """One replica of the model."""

    def __init__(self, make_service: Callable[[], Service], limits: Limits):
        service = make_service()
        service.load()
        self._device = Device(service, limits)

    async def lines(self, prompt: str, settings: dict[str, Any]) -> AsyncGenerator[str, None]:
        async for text in self._device(prompt, Settings.from_mapping(settings)):
            yield text


class Replicas:
    """Model replicas as a `mtviz.hosting.hall.Source`."""

    def __init__(self, handle: Any):
        self._handle = handle.options(stream=True)

    async def __call__(self, prompt: str, settings: Settings) -> AsyncGenerator[str, None]:
        updates = self._handle.lines.remote(prompt, settings.to_dict())
        try:
            async for text in updates:
                yield text
        finally:
            updates.cancel()


def application(make_service: Callable[[], Service], make_page: Callable[[Service, Limits, Hall], Any], limits: Limits, replicas: int) -> Any:
    """The Ray Serve application. Both makers are called on the replicas, since neither a model nor a Gradio page pickles.

    `make_page` gives an ASGI application.
    """
    from ray import serve

    scaling = {"min_replicas": 1, "max_replicas": replicas, "initial_replicas": replicas, "target_ongoing_requests": 1}
    model = serve.deployment(name="Model", max_ongoing_requests=1, max_queued_requests=-1, autoscaling_config=scaling)(Model)

    def page() -> Any:
        handle = serve.get_deployment_handle("Model", app_name=NAME)
        return make_page(Front(replicas), limits, Hall(Replicas(handle), limits, devices=replicas))

    # One replica: Gradio's queue, and with it the hall, is in the memory of its process.
    ingress = serve.deployment(name="Page", num_replicas=1, max_ongoing_requests=4 * limits.max_visitors)(serve.ingress(page)())
    return ingress.bind(model.bind(make_service, limits))


def start(app: Any, host: str, port: int, *, blocking: bool = True) -> None:
    """Run it on the Ray cluster that this machine belongs to."""
    import ray
    from ray import serve

    if not ray.is_initialized():
        code = {"working_dir": str(ROOT), "excludes": [".git", ".venv*", "docs", "tests", "**/__pycache__"]}
        ray.init(address="auto", runtime_env=code)
    serve.start(http_options={"host": host, "port": port})
    serve.run(app, name=NAME, route_prefix="/", blocking=blocking)
