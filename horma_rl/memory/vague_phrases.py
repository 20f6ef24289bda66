"""Phrases that place something in time without saying when: relative to a life, to another event, or to nothing named.

Resolving them takes knowledge that the turn's own time does not give ("in her teens" needs a year of birth), so they
are marked unresolved instead of being read as some day.
"""

from __future__ import annotations

import re

from horma_rl.memory.phrases import AMOUNT, DAYS

_WHOSE = r"(?:my|your|his|her|our|their|its|the)"
_WHO = r"(?:i|you|he|she|we|they)"
_UNIT = r"(?:day|night|morning|afternoon|evening|weekend|week|month|year|decade|spring|summer|autumn|fall|winter)"
_NAMED = rf"(?:{_UNIT}|{'|'.join(DAYS)})"
_AGE = (
    r"(?:(?:early |mid[- ]|late )?(?:teens|twenties|thirties|forties|fifties|sixties|seventies|eighties|[2-9]0s)|"
    r"childhood|youth|teenage years|school days|college years)"
)
_AGED = r"(?:kid|child|baby|toddler|teen|teenager|boy|girl|student)"
_UNNAMED_AMOUNT = AMOUNT.replace("?P<n>", "?:")
_PATTERNS = (
    rf"(?:in|during|since|throughout) {_WHOSE} {_AGE}",
    rf"(?:when|while|since|before|until) {_WHO} (?:was|were) (?:\d{{1,2}}|(?:just )?an? (?:little )?{_AGED}|"
    r"little|young|younger|small|older|growing up|in (?:high school|school|college|university))",
    rf"as an? (?:young |little |small )?{_AGED}",
    r"(?:(?:many|some|so many) )?(?:years|months|weeks|days|decades|ages) (?:ago|back)",
    r"(?:a (?:long |little |short )?while|some time|a (?:long )?time|long|ages) (?:ago|back)",
    rf"{_UNNAMED_AMOUNT} {_UNIT}s? (?:before|after|later|earlier|prior|afterwards?)",
    rf"the (?:very )?(?:following|next|previous|same) {_NAMED}",
    rf"the {_NAMED} (?:before|after|of)",
    r"(?:last|next|this) (?:easter|thanksgiving|ramadan|diwali|hanukkah|passover|semester|term|season)",
    rf"(?:on|for|since|before|after) {_WHOSE} (?:last |next |\d{{1,2}}(?:st|nd|rd|th) )?(?:birthday|anniversary)",
    rf"{_WHOSE} (?:last|next) (?:birthday|anniversary|visit|trip|appointment)",
    r"the other (?:week|month|year)",
    r"recently|lately|these days|nowadays|back then|back in the day|before long",
    r"one day|some ?day|sometime(?: soon)?|soon|eventually|in the (?:near |distant )?(?:future|past)",
    r"(?:the )?(?:last|next) time|at the time|at that time|around that time|since then|until then",
)
VAGUE = re.compile("|".join(rf"\b(?:{pattern})\b" for pattern in _PATTERNS))
"""Over lower-case text with straight apostrophes. Phrases that `phrases.RULES` resolve take precedence where they begin
earlier or are longer."""
