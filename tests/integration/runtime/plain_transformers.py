"""A small BERT that is told by its first word, trained by Hugging Face's Trainer: nothing in it is modak's."""

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

LENGTH = 12


class Texts(torch.utils.data.Dataset):
    def __init__(self, count):
        self.ids = torch.randint(5, 60, (count, LENGTH))
        self.labels = (self.ids[:, 0] > 32).long()

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, number):
        mask = torch.ones(LENGTH, dtype=torch.long)
        return {"input_ids": self.ids[number], "attention_mask": mask, "labels": self.labels[number]}


def accuracy(found):
    return {"accuracy": float((found.predictions.argmax(-1) == found.label_ids).mean())}


torch.manual_seed(0)
config = BertConfig(
    vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
    max_position_embeddings=16,
)  # fmt: skip
arguments = TrainingArguments(
    output_dir="out", num_train_epochs=3, per_device_train_batch_size=16, learning_rate=0.002, logging_steps=4,
    save_strategy="no", eval_strategy="epoch", report_to=[], disable_tqdm=True, use_cpu=True,
)  # fmt: skip
model = BertForSequenceClassification(config)
trainer = Trainer(
    model=model, args=arguments, train_dataset=Texts(256), eval_dataset=Texts(64), compute_metrics=accuracy
)
trainer.train()
print("sum of weights:", float(sum(each.double().sum() for each in trainer.model.parameters())))
