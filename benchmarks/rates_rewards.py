"""The two rewards of the benchmark of learning rates, in the form of a user's reward file."""


def short_words(completions, **columns):
    """The share of words with at most four letters; 0 for an answer of fewer than three words."""
    rewards = []
    for text in completions:
        words = text.split()
        rewards.append(sum(len(w.strip(".,;")) <= 4 for w in words) / len(words) if len(words) >= 3 else 0.0)
    return rewards


def whole_sentence(completions, **columns):
    """1 for an answer of three words or more that ends with a full stop, else 0. A chat's answer is a list of one message."""
    texts = [answer if isinstance(answer, str) else answer[0]["content"] for answer in completions]
    return [float(text.strip().endswith(".") and len(text.split()) >= 3) for text in texts]
