"""Google's list of models is asked once, before anything is paid for; of a name not on it the
successor is named.
"""

import sys
from pathlib import Path

import dagster as dg
import pytest

from dagster_project.cli.doctor import examination
from dagster_project.composition.objects import require_served_models
from dagster_project.config.settings import Settings
from tests.archives import Mail, Workspace
from tests.daemon import Daemon
from tests.gemini_loopback import Loopback
from transforms.errors import ServiceError, SettingsError


def settings_of(url: str, **sections: object) -> Settings:
    source = {"name": "dev", "kind": "mbox", "path": "*"}
    return Settings.model_validate({"sources": [source], "gemini": {"base_url": url}, **sections})


GEMINI = {"model": "gemini", "dimensions": 768}
WRITES = {"kind": "gemini", "name": "gemini-3.5-flash"}


def test_models_on_the_list_are_used(gemini: Loopback):
    require_served_models(settings_of(gemini.url, embedding=GEMINI, sentences=WRITES))
    tuned = {"method": "gemini", "name": "tunedModels/ours"}
    require_served_models(settings_of(gemini.url, rerank=tuned))
    assert (gemini.listed, gemini.requests) == (2, [])


@pytest.mark.parametrize(
    ("sections", "gone", "successor"),
    [
        ({"embedding": GEMINI}, "gemini-embedding-2", "gemini-embedding-001"),
        ({"sentences": WRITES}, "gemini-3.5-flash", "gemini-3.5-flash-lite"),
        ({"queries": {"rewrite": "gemini"}}, "gemini-3.5-flash-lite", "gemini-3.5-flash"),
        ({"rerank": {"method": "gemini"}}, "gemini-3.5-flash-lite", "gemini-3.5-flash"),
        ({"rerank": {"method": "gemini", "name": "no-such"}}, "", "gemini-3.5-flash-lite"),
    ],
)
def test_a_model_that_is_gone_is_refused_with_its_successor(
    gemini: Loopback, sections: dict[str, object], gone: str, successor: str
):
    gemini.served.pop(gone, None)
    with pytest.raises(ServiceError, match=f"write '{successor}' into the settings"):
        require_served_models(settings_of(gemini.url, **sections))
    assert gemini.listed == 1


def test_without_a_model_of_google_nobody_is_asked(gemini: Loopback):
    require_served_models(
        settings_of(gemini.url, sentences={"name": "openai/llama3.1", "kind": "gemini"})
    )
    assert gemini.listed == 0


def test_without_a_list_nothing_is_said(gemini: Loopback, monkeypatch: pytest.MonkeyPatch):
    require_served_models(settings_of("http://127.0.0.1:9", embedding=GEMINI))
    monkeypatch.delenv("GEMINI_API_KEY")
    require_served_models(settings_of(gemini.url, embedding=GEMINI))
    assert gemini.listed == 0


def test_a_build_the_doctor_and_the_ui_say_which_extra_is_missing(
    tmp_path: Path, gemini: Loopback, monkeypatch: pytest.MonkeyPatch
):
    """The package `google` of other projects may be there without `google.genai`."""
    google = pytest.importorskip("google")
    monkeypatch.setitem(sys.modules, "google.genai", None)
    monkeypatch.delattr(google, "genai", raising=False)
    work = Workspace(tmp_path).configure(embedding=GEMINI)
    work.write("dev.2004-01.mbox", [Mail(1, "Hello.")])
    with pytest.raises(
        SettingsError, match=r"step embeddings failed: .*pip install 'weft\[gemini\]'"
    ):
        work.build()
    findings = [f for f in examination(work.settings) if f.area == "model"]
    assert findings[-1].state == "fault" and findings[-1].remedy == "pip install 'weft[gemini]'"
    # Dagster's page of a run, and of an asset that it was to make, shows the fault of its step.
    with work.instance() as instance:
        daemon = Daemon(work, instance)
        daemon.begin_refresh()
        daemon.rest()
        failed = [
            event.dagster_event.step_failure_data.error
            for run in instance.get_runs()
            for event in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
            if event.dagster_event
        ]
    assert failed and all("pip install 'weft[gemini]'" in error.to_string() for error in failed)


def test_a_build_and_the_hour_ask_before_the_first_step(tmp_path: Path, gemini: Loopback):
    work = Workspace(tmp_path).configure(embedding=GEMINI)
    work.write("dev.2004-01.mbox", [Mail(1, "Hello.")])
    gemini.served.pop("gemini-embedding-2")
    with pytest.raises(ServiceError, match="gemini-embedding-001"):
        work.build()
    assert (gemini.listed, gemini.requests) == (1, [])
    assert not list(work.settings.root.glob("lake/messages/*"))
    with work.instance() as instance:
        daemon = Daemon(work, instance)
        assert daemon.hour() == [] and "gemini-embedding-001" in daemon.why
        daemon.begin_refresh()
        daemon.run()
        assert daemon.look() == [] and "gemini-embedding-001" in daemon.why
    assert (gemini.listed, gemini.requests) == (3, [])
