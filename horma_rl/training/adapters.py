"""Low-rank adapters (peft): what the trainer puts around the model, and the merged model that a run leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import peft

from horma_rl.training.launch_config import LoraConfig
from horma_rl.training.policies import load


def adapter_config(lora: LoraConfig) -> Any:
    """The adapters of `lora`, for TRL. Without dropout: the policy that is trained is the one that plays."""
    return peft.LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        target_modules=lora.target_modules,
        lora_dropout=0.0,
        task_type="CAUSAL_LM",
    )


def merged(start: Path, checkpoint: Path) -> tuple[Any, Any]:
    """Tokenizer and model: `start` with the adapters of `checkpoint` added to its weights."""
    tokenizer, model = load(start)
    return tokenizer, peft.PeftModel.from_pretrained(model, checkpoint).merge_and_unload()
