"""The settings file: validated TOML that `--config`, `WEFT_CONFIG` or the name `weft.toml` points
to.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, Field, ValidationError, field_validator, model_validator

from dagster_project.config.file_faults import (
    dotted_keys,
    explain,
    refused_keys,
    synonyms_in,
    with_folder,
)
from dagster_project.config.known_services import (
    FORMATS,
    AddedSections,
    known_engine,
    known_format,
    known_target,
)
from dagster_project.config.layers import Layers, layered
from dagster_project.config.places import CONFIG_VARIABLE, chosen_config
from dagster_project.config.remote_settings import RemoteSettings
from dagster_project.config.source_settings import FileRemote, MailRemote, known_zone, remotes_of
from transforms.errors import SettingsError
from transforms.languages import function_words
from transforms.settings.base import Internal, StageSettings, without_credentials
from transforms.settings.conversations import ContextSettings, ConversationSettings, WindowSettings
from transforms.settings.designs import DESIGNS
from transforms.settings.documents import (
    ISSUE_NEEDS,
    READ_ENDINGS,
    DocumentChunkSettings,
    DocumentSettings,
    Patterns,
)
from transforms.settings.mail import (
    BlockSettings,
    ChunkSettings,
    MailSettings,
    PeopleSettings,
    ThreadSettings,
)
from transforms.settings.models import (
    EmbeddingSettings,
    GeminiSettings,
    SafetySettings,
    SentenceKind,
    SentenceSettings,
)
from transforms.settings.operations import (
    AlertSettings,
    EngineSettings,
    EvaluationSettings,
    IndexSettings,
    OperationsSettings,
)
from transforms.settings.search import (
    BUILT_IN_PROFILES,
    LensSettings,
    McpSettings,
    QuerySettings,
    RerankSettings,
    SearchSettings,
    TermSettings,
)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class NamedSource(StageSettings):
    """The settings that all kinds of source share."""

    source_type: ClassVar[str]
    """The name of the source type of the source's files."""

    @classmethod
    def kinds(cls) -> tuple[str, ...]:
        """The kinds of source that these settings are for."""
        return get_args(cls.model_fields["kind"].annotation)

    name: str = Field(description="name; the part of a partition before the slash")
    sentence: SentenceKind | None = Field(
        None, description="sentence before the embedded text; none: `sentences.kind`"
    )
    path: str | None = Field(
        None,
        description="file, folder or glob; with `fetch` below the fetched files, by default all of them",
    )

    @field_validator("name")
    @classmethod
    def _plain_name(cls, name: str) -> str:
        if not _NAME.fullmatch(name) or ".." in name:
            raise ValueError(
                "use 1 to 64 letters, digits, '.', '_' or '-', the first a letter or digit"
            )
        return name

    @property
    def fetch_step(self) -> str:
        """Name of the step that fetches the source."""
        return f"fetch_{re.sub('[^A-Za-z0-9]', '_', self.name)}"

    @property
    def remote(self) -> RemoteSettings | None:
        """The remote of the source; None if its files are local."""
        return getattr(self, "fetch", None)

    @model_validator(mode="after")
    def _has_a_place(self) -> NamedSource:
        if self.path is None and self.remote is None:
            raise ValueError("give a path, or say with fetch where its files come from")
        if (
            self.path
            and self.remote
            and (Path(self.path).is_absolute() or ".." in Path(self.path).parts)
        ):
            raise ValueError(
                "beside fetch, path is relative to the folder of fetched files and stays inside"
            )
        kind = str(getattr(self, "kind", ""))
        if self.remote and self.remote.kind not in remotes_of(kind):
            fitting = " or ".join(remotes_of(kind)) or "nothing"
            raise ValueError(
                f"a source of kind {kind} is fetched by {fitting}, not by {self.remote.kind}"
            )
        return self


class SourceSettings(NamedSource):
    """One place that mail comes from."""

    source_type = "mail"
    kind: Literal["mbox", "maildir", "eml", "public_inbox"] = Field(
        description="how mails are stored (public_inbox: v2)"
    )
    fetch: MailRemote | None = Field(
        None, description="where its files are fetched from, see below"
    )
    list_id: str | None = Field(
        None,
        description="mailing list; none: the file name before its date, else the source's name",
    )
    grain: Literal["auto", "month", "year", "archive"] | None = Field(
        None,
        description="unit of a partition; auto: months of the youngest year, whole years before, and small folders "
        "of mail together; none: month for archives of lists, auto for folders of mail",
    )
    dialect: Literal["mboxrd", "mboxo", "content-length"] = Field(
        "mboxrd", description="how From_ lines are escaped in mbox files"
    )


USUALLY_EXCLUDED = ("node_modules/", "__pycache__/", "_authority/", "_chunks/", "All Tasks.md")


class DocumentSourceSettings(NamedSource):
    """One folder of notes or of documentation."""

    source_type = "documents"
    kind: Literal["vault", "tree", "issues", "wiki"] = Field(
        description="notes that link by name, as in Obsidian; any documents; exported issues, as JSON or Markdown; "
        "or the pages of an exported MediaWiki"
    )
    fetch: FileRemote | None = Field(
        None, description="where its files are fetched from, see below"
    )
    include: tuple[str, ...] = Field(
        tuple(f"*.{ending}" for ending in READ_ENDINGS),
        description="patterns as in a .gitignore of files that are read",
    )
    exclude: tuple[str, ...] = Field(
        (),
        description="patterns as in a .gitignore of files and folders that are left out, beside "
        f"{', '.join(f'`{p}`' for p in USUALLY_EXCLUDED)}; `!node_modules/` takes one of these back",
    )
    grain: Literal["auto", "whole", "folder"] = Field(
        "auto",
        description="unit of a partition; auto: parts of some hundred notes, or some dozen PDFs and office files",
    )
    chunker: Literal["tree", "sections", "semantic"] | None = Field(
        None, description="how documents become chunks; none: `document_chunks.chunker`"
    )
    needs: Patterns = Field(
        ISSUE_NEEDS, description="issues: needs of each, as regular expressions"
    )


class ConversationSourceSettings(NamedSource):
    """Chats: exported files or folders of one program."""

    source_type = "conversations"
    kind: Literal["conversation"] = Field(description="chats of people")
    fetch: FileRemote | None = Field(
        None, description="where its files are fetched from, see below"
    )
    format: Annotated[str, AfterValidator(known_format)] = Field(
        "auto",
        description=f"{FORMATS}: kind of the files; auto: by name and content; most may be in a .zip",
    )
    timezone: Annotated[str, AfterValidator(known_zone)] = Field(
        "UTC", description="zone of times that name none, as `Europe/London`"
    )
    date_order: Literal["auto", "dmy", "mdy", "ymd"] = Field(
        "auto", description="order of dates in WhatsApp exports; auto: by the numbers"
    )
    windows: WindowSettings = Field(
        WindowSettings(), description="how conversations are cut into windows"
    )
    pseudonyms: bool | Literal["others"] = Field(
        True,
        description="replace the names of people, by the key in `pseudonym.key`: for all, or for others (a lens, a "
        "person's token, an assistant)",
    )


AnySource = Annotated[
    SourceSettings | DocumentSourceSettings | ConversationSourceSettings,
    Field(discriminator="kind"),
]


FOR_OTHERS = "others"
"""The value of `pseudonyms`, and the name of the lens, of chats whose names only their owner sees."""


class StorageSettings(StageSettings):
    """The places where Weft stores fetched and built files."""

    root: str = Field("data", description="folder of lake, index, cache and dagster")
    lake: str | None = Field(None, description="URI of the lake; none: lake/ below root")
    pseudonym_key: Internal[str] = "pseudonym.key"
    """File with the key of pseudonyms; WEFT_PSEUDONYM_KEY, if set, is the key itself."""

    _checked_address = field_validator("lake")(without_credentials)


def _known_design(name: str) -> str:
    if name and name not in DESIGNS:
        raise ValueError(f"no design is called {name!r}; known are {', '.join(DESIGNS)}")
    return name


def _value(section: Any, key: str) -> Any:
    """The value of a key in a section of a file, or in its model."""
    return section.get(key) if isinstance(section, dict) else getattr(section, key, None)


class Settings(AddedSections):
    """Everything a settings file may say; every section but `sources` has defaults."""

    design: Annotated[str, AfterValidator(_known_design)] = Field(
        "",
        description="one of the five designs, for the values of its keys that no key below sets",
    )
    sources: tuple[AnySource, ...] = Field(
        description="where mail, documents and conversations come from"
    )
    storage: StorageSettings = StorageSettings()
    mail: MailSettings = MailSettings()
    blocks: BlockSettings = BlockSettings()
    chunks: ChunkSettings = ChunkSettings()
    documents: DocumentSettings = DocumentSettings()
    document_chunks: DocumentChunkSettings = DocumentChunkSettings()
    conversations: ConversationSettings = ConversationSettings()
    terms: TermSettings = TermSettings()
    threads: ThreadSettings = ThreadSettings()
    people: PeopleSettings = PeopleSettings()
    sentences: SentenceSettings = SentenceSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    gemini: GeminiSettings = GeminiSettings()
    safety: SafetySettings = SafetySettings()
    index: Annotated[IndexSettings, AfterValidator(known_target)] = IndexSettings()
    operations: OperationsSettings = OperationsSettings()
    engine: Annotated[EngineSettings, AfterValidator(known_engine)] = EngineSettings()
    alerts: AlertSettings = AlertSettings()
    search: SearchSettings = SearchSettings()
    context: ContextSettings = ContextSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    profiles: dict[str, dict[str, Any]] = Field(
        {}, description="named changes to [search] that `weft eval` can measure, as [profiles.NAME]"
    )
    lenses: dict[str, LensSettings] = Field({}, description="views of the index, by name")
    rerank: RerankSettings = RerankSettings()
    queries: QuerySettings = QuerySettings()
    mcp: McpSettings = McpSettings()
    base: Internal[Path] = Field(
        Path(), description="folder that relative paths start from", exclude=True
    )

    @model_validator(mode="before")
    @classmethod
    def _stopwords_of_the_language(cls, data: Any) -> Any:
        """Unless they are set, the words that queries leave out are those of the languages whose
        stemmers are set.
        """
        terms, search = (data.get(name, {}) for name in ("terms", "search"))
        language = (
            terms.get("stemmer") if isinstance(terms, dict) and isinstance(search, dict) else None
        )
        words = tuple(
            dict.fromkeys(
                word for name in str(language).split("+") for word in function_words(name)
            )
        )
        return {**data, "search": {"stopwords": words, **search}} if words else data

    @model_validator(mode="before")
    @classmethod
    def _lens_of_others(cls, data: Any) -> Any:
        """If chats have names for their owner alone, others read under a lens that replaces them."""
        sources, lenses = data.get("sources"), data.get("lenses", {})
        if not isinstance(sources, list | tuple) or not isinstance(lenses, dict):
            return data
        if all(_value(source, "pseudonyms") != FOR_OTHERS for source in sources):
            return data
        return {**data, "lenses": {FOR_OTHERS: {"where": "-source:none"}, **lenses}}

    @model_validator(mode="after")
    def _distinct_names(self) -> Settings:
        names = [s.name for s in self.sources]
        if twice := sorted({n for n in names if names.count(n) > 1}):
            raise ValueError(f"two sources are named {twice[0]!r}; names must differ")
        steps = [s.fetch_step for s in self.sources if s.remote]
        if twice := sorted({n for n in steps if steps.count(n) > 1}):
            raise ValueError(
                f"the names of two fetched sources differ in no letter or digit ({twice[0]!r})"
            )
        return self

    @model_validator(mode="after")
    def _model_sees(self) -> Settings:
        if self.documents.pictures and not self.embedding.sees:
            raise ValueError(
                'documents.pictures needs a model that sees: [embedding] model = "gemini"'
            )
        return self

    @model_validator(mode="after")
    def _known_profiles(self) -> Settings:
        for name in {**self.profiles, **dict.fromkeys(self.evaluation.profiles)}:
            self.profile(name)
        return self

    @property
    def named_chats(self) -> tuple[str, ...]:
        """The sources of chats whose names only their owner sees."""
        chats = (s for s in self.sources if isinstance(s, ConversationSourceSettings))
        return tuple(source.name for source in chats if source.pseudonyms == FOR_OTHERS)

    @property
    def lens_of_others(self) -> str | None:
        """The lens of an assistant or a person's token without one of its own."""
        return FOR_OTHERS if self.named_chats else None

    def profile_changes(self, name: str) -> dict[str, Any]:
        """The changes in [search] by the profile of that name; ValueError with the known names for
        an unknown one.
        """
        profiles = {**BUILT_IN_PROFILES, **self.profiles}
        if name not in profiles:
            raise ValueError(f"no profile is called {name!r}; known are {', '.join(profiles)}")
        return profiles[name]

    def profile(self, name: str) -> SearchSettings:
        """The search settings under the profile of that name; ValueError if they are wrong."""
        try:
            return changed_search(self.search, self.profile_changes(name))
        except ValidationError as error:
            raise ValueError(f"profile {name!r}: {faults_of(error)}") from error

    @property
    def root(self) -> Path:
        """The folder that holds everything generated."""
        return (self.base / self.storage.root).resolve()

    @property
    def lake_uri(self) -> str:
        """Location of the Parquet lake."""
        lake = self.storage.lake
        if lake and "://" in lake:
            return lake
        return str((self.base / lake).resolve() if lake else self.root / "lake")

    @property
    def pseudonym_key_file(self) -> Path:
        """The file with the key of pseudonyms."""
        return (self.base / Path(self.storage.pseudonym_key).expanduser()).resolve()

    @property
    def fetched(self) -> Path:
        """The folder of fetched files, one folder per source."""
        return self.root / "sources"

    def place(
        self, source: SourceSettings | DocumentSourceSettings | ConversationSourceSettings
    ) -> Path:
        """The file, folder or glob at which the files of a source are."""
        if source.remote is None:
            return self.base / Path(source.path or "").expanduser()
        everything = "*" if source.kind in ("mbox", "conversation") else ""
        return self.fetched / source.name / (source.path or everything)

    def is_generated(self, path: Path) -> bool:
        """True for files that Weft built, which are not sources; files that it fetched are."""
        return path.is_relative_to(self.root) and not path.is_relative_to(self.fetched)

    def chunkers(self) -> dict[str, DocumentChunkSettings]:
        """How the documents of each source become chunks, by name of the source; the default under
        `""`.
        """
        usual = self.document_chunks
        own = {s.name: s.chunker for s in self.sources if isinstance(s, DocumentSourceSettings)}
        changed = {
            name: usual.model_copy(update={"chunker": c}) if c else usual for name, c in own.items()
        }
        return {"": usual, **changed}

    def sentence_kinds(self) -> dict[str, str]:
        """Which sentence the chunks of each source get, by its name."""
        return {s.name: s.sentence or self.sentences.kind for s in self.sources}

    def source(
        self, name: str
    ) -> SourceSettings | DocumentSourceSettings | ConversationSourceSettings:
        """The source of that name; KeyError if there is none."""
        return {s.name: s for s in self.sources}[name]


def changed_search(search: SearchSettings, changes: Mapping[str, Any]) -> SearchSettings:
    """Search settings with some values changed; ValidationError if that makes them wrong."""
    return SearchSettings.model_validate({**search.model_dump(), **changes})


def faults_of(error: ValidationError) -> str:
    """The faults in one line: each entry, or `input` for all of it, and its fault."""
    return "; ".join(
        f"{'.'.join(map(str, f['loc'])) or 'input'}: {f['msg']}" for f in error.errors()
    )


def config_path(name: str | Path | None = None) -> Path:
    """Path of the settings file: `name`, else `WEFT_CONFIG`, else `weft.toml` in this folder."""
    chosen = chosen_config(name)
    if not chosen.is_file():
        raise SettingsError(
            f"no settings file at {chosen}: name one with --config FILE or {CONFIG_VARIABLE}=FILE "
            "or write one with `weft init PLACE`"
        )
    return chosen


def layered_file(name: str | Path | None = None, design: str | None = None) -> Layers:
    """The layers of the settings (`layers.layered`); SettingsError if the file is not TOML."""
    path = config_path(name)
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not valid TOML: {error}") from error
    except RecursionError as error:
        raise SettingsError(f"{path} is not valid TOML: its values are nested too deep") from error
    except UnicodeDecodeError as error:
        raise SettingsError(
            f"{path} is not valid TOML: it is not UTF-8 at byte {error.start}; save it as UTF-8"
        ) from error
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    internal = dotted_keys(Settings, internal=True)
    set_keys = layered(raw, "")
    if faults := refused_keys(path, set_keys.keys, internal, set_keys.variables):
        raise SettingsError("\n".join(faults))
    return layered(raw, design)


def load_settings(name: str | Path | None = None, design: str | None = None) -> Settings:
    """The validated settings, with a `design` in place of that of the file, "" for none;
    SettingsError names the file or variable, the entry and its fault.
    """
    path = config_path(name)
    layers = layered_file(path, design)
    raw = layers.keys
    try:
        settings = Settings(**raw, base=path.resolve().parent)
        search = settings.search.model_copy(update={"synonyms": synonyms_in(settings.base)})
        embedding = with_folder(settings.embedding, settings.base)
        return settings.model_copy(update={"embedding": embedding, "search": search})
    except ValidationError as error:
        kinds = [kind for source in get_args(get_args(AnySource)[0]) for kind in source.kinds()]
        raise SettingsError(explain(path, raw, error, kinds, Settings, layers.variables)) from error
