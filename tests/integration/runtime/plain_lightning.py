"""A small network, trained by Lightning's Trainer: nothing in it is modak's."""

import os
import time

import lightning
import torch


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))

    def training_step(self, batch, _):
        outputs = self.net(batch[0])
        print("computes in", outputs.dtype)
        loss = torch.nn.functional.cross_entropy(outputs.float(), batch[1])
        self.log("train_loss", loss)
        if os.environ.get("STOPS_IN_EPOCH") == str(self.current_epoch):
            open(os.environ["MODAK_STOP"], "w").close()
            time.sleep(0.3)
        return loss

    def validation_step(self, batch, _):
        self.log("val_loss", torch.nn.functional.cross_entropy(self.net(batch[0]).float(), batch[1]))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


torch.manual_seed(0)
values = torch.rand(240, 8)
data = torch.utils.data.TensorDataset(values, (values[:, 0] * 3).long())
net = Net()
trainer = lightning.Trainer(
    max_epochs=3, enable_progress_bar=False, logger=False, enable_checkpointing=False, accelerator="cpu"
)
loader = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True)
trainer.fit(net, loader, torch.utils.data.DataLoader(data, batch_size=64))
print("sum of weights:", float(sum(each.double().sum() for each in net.parameters())))
