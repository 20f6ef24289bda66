"""How the manager asks: sizes of its batches, of its prompt and of what it may write. No torch is imported here."""

from __future__ import annotations

from pydantic import Field

from horma_rl.config import StrictModel
from horma_rl.memory.manager.operations import MAX_LINE, MAX_LINES


class ManagerConfig(StrictModel):
    """Options of the manager. The defaults suit small models with a context of 8,192 tokens; a strong model can take
    more at once. Tokens are estimated as four characters each."""

    batch_tokens: int = Field(1_200, ge=100)
    """Conversation in one request: a session that is longer is filed in several batches."""
    turn_tokens: int = Field(300, ge=20)
    """What is shown of one turn. The archive keeps all of it."""
    tree_tokens: int = Field(250, ge=0)
    """The list of notes that exist, those about the batch first."""
    notes_tokens: int = Field(500, ge=0)
    """Text of existing notes that share words with the batch."""
    skills_tokens: int = Field(600, ge=0)
    """Skills in the prompt, where a library is given."""
    max_tokens: int = Field(1_024, ge=16)
    """Tokens of one answer."""
    rounds: int = Field(2, ge=0)
    """Times that refused operations go back to the model with the reasons; then they are logged and skipped."""
    max_operations: int = Field(24, ge=1)
    """Operations of one answer; the ones over are refused."""
    plain: bool = False
    """For very small models, which copy examples and take rules for text: a prompt of a few sentences, and a schema
    with nothing but lines that cite one turn each, to create and append. It needs a server that keeps to schemas, else
    the schema is described in the prompt."""
    least_operations: int = Field(0, ge=0)
    """Operations that a first answer must have, where the server keeps to schemas: small models else file nothing."""
    lines: int = Field(MAX_LINES, ge=1, le=MAX_LINES)
    """Lines of one operation, where the server keeps to schemas."""
    line_characters: int = Field(MAX_LINE, ge=20, le=MAX_LINE)
    """Characters of one line, where the server keeps to schemas."""
