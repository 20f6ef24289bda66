"""The generator's front door: a config in, conversations and tasks out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from horma_rl.benchmarks.generator.answers import Query
from horma_rl.benchmarks.generator.config import GeneratorConfig
from horma_rl.benchmarks.generator.questions import Questions
from horma_rl.benchmarks.generator.render import Renderer
from horma_rl.benchmarks.generator.simulate import Simulation
from horma_rl.benchmarks.generator.world import World
from horma_rl.benchmarks.types import Conversation
from memory_shell.types import Task


@dataclass(frozen=True, slots=True)
class Memory:
    """One generated memory. `world` is the truth behind it and `queries` what each task means, for checking."""

    conversation: Conversation
    tasks: tuple[Task, ...]
    world: World
    queries: tuple[Query, ...]


@dataclass(frozen=True, slots=True)
class Generated:
    """All memories of one config, in order."""

    config: GeneratorConfig
    memories: tuple[Memory, ...]

    @property
    def conversations(self) -> list[Conversation]:
        """One conversation per memory."""
        return [memory.conversation for memory in self.memories]

    @property
    def tasks(self) -> list[Task]:
        """Every memory's tasks, memory by memory."""
        return [task for memory in self.memories for task in memory.tasks]


def generate(config: GeneratorConfig) -> Generated:
    """Make `config.memories` memories. Deterministic: the same config gives the same result in every process."""
    return Generated(config, tuple(iterate(config)))


def iterate(config: GeneratorConfig) -> Iterator[Memory]:
    """The memories of `config` one at a time, for sizes that do not fit in memory. Memory i does not depend on how
    many come after it."""
    for number in range(config.memories):
        yield _memory(config, number)


def _memory(config: GeneratorConfig, number: int) -> Memory:
    name = f"gen-{config.part}-s{config.seed}-{number:04d}"
    rng = Random(f"{config.seed}/{config.part}/{number}")
    simulation = Simulation(rng, config)
    world = simulation.run()
    conversation = Renderer(rng, config, world, simulation.values).conversation(name)
    place = {turn: index for index, turn in enumerate(conversation.turn_ids())}
    world.facts.sort(key=lambda fact: place[fact.turn])
    transcript = "\n".join(f"{turn.text}\n{turn.caption or ''}" for turn in conversation.turns()).lower()
    questions = Questions(rng, config, world, transcript).draw()
    tasks = tuple(
        Task(
            id=f"{name}/q-{index}",
            question=question.text,
            evidence=question.outcome.evidence,
            workspace=name,
            answer=question.outcome.answer,
            category=question.query.kind,
            meta={} if question.outcome.trap is None else {"adversarial_answer": question.outcome.trap},
        )
        for index, question in enumerate(questions)
    )
    return Memory(conversation, tasks, world, tuple(question.query for question in questions))
